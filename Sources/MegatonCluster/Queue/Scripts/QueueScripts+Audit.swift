internal import MegatonRedis

extension QueueScripts {
    /// Reads the ids of a page of job bodies. HSCAN alone would send the jobs' JSON too.
    ///
    /// KEYS 1 body
    /// ARGV 1 cursor · 2 approximate number of ids
    /// Returns {the next cursor, `0` after the last page, {ids}}. Changes nothing.
    static let auditBodies = RedisScript(
        name: "auditBodies",
        source: """
            #!lua flags=no-writes
            local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
            local ids = {}
            for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
            return {page[1], ids}
            """
    )

    /// Examines ids that looked inconsistent, each in its state at this moment, and repairs them on request.
    ///
    /// KEYS 1 body · 2 meta · 3-5 ready: high, normal, bulk · 6 lease · 7 delay · 8 dead · 9 deadinfo · 10 wake ·
    ///      11 stat · 12 suspects, then for each batch concerned: batch:<b>, results:<b>, seen:<b>
    /// ARGV 1 `1` to repair · 2 number of batches · their names, then pairs of an id and the number of its batch, 0 for
    ///      none
    /// Returns a list of {id, kind, its places joined by ` + `, its batch}, one for each fault: all that were found, or
    /// those that were repaired. The kinds are those of `QueueAudit.Kind`. The batches may be left out if nothing is to
    /// be repaired. Jobs in `suspects` count as ready here.
    /// Before: any state. After a repair: each id has body and meta and is in exactly one of ready, lease and delay, or
    /// is nowhere except, perhaps, in dead. A lease wins over delay, delay over ready; an orphan becomes ready and goes
    /// first. A job that cannot run any more has failed: its batch counts it, unless it is dead and was counted then,
    /// and its JSON, if it still exists, is in dead. A batch that cannot count any more lacks the job, which is then in
    /// `damaged_batch_ends` of stat. Such a job is left alone if its batch is not the one that was given. An unreadable
    /// meta counts as missing: `claim` would fail on it.
    static let audit = script(
        "audit",
        """
        local lost = 'What the queue knew of the job was incomplete.'
        local function examine(id)
          local j = {id = id, body = redis.call('HEXISTS', KEYS[1], id) == 1, places = {}, batch = ''}
          local m = redis.call('HGET', KEYS[2], id)
          if m then
            local _, _, _, p, b = meta(m)
            j.batch = b or ''
            if p == '1' or p == '2' or p == '3' then j.list = KEYS[2 + tonumber(p)] end
          end
          if redis.call('ZSCORE', KEYS[6], id) then j.places[1] = 'lease' end
          if redis.call('ZSCORE', KEYS[7], id) then j.places[#j.places + 1] = 'delay' end
          for _, k in ipairs({3, 4, 5, 12}) do
            for _ = 1, #redis.call('LPOS', KEYS[k], id, 'COUNT', 0) do j.places[#j.places + 1] = 'ready' end
          end
          j.dead = redis.call('ZSCORE', KEYS[8], id)
          if j.body and j.list then
            if #j.places == 0 then j.kind = 'orphan' elseif #j.places > 1 then j.kind = 'two_states' end
          elseif j.body then
            j.kind = 'without_meta'
            j.json = redis.call('HGET', KEYS[1], id)
            local read, job = pcall(cjson.decode, j.json)
            if read and type(job) == 'table' then
              if j.batch == '' and type(job.batch) == 'string' then j.batch = job.batch end
              if j.batch == '' and not job.requeuedFrom then j.batch = string.match(id, '^([^/]+)/') or '' end
              if type(job.labels) == 'table' and next(job.labels) then j.labels = cjson.encode(job.labels) end
            end
          elseif m then
            j.kind = 'without_body'
          elseif #j.places > 0 then
            j.kind = 'without_job'
          end
          return j
        end
        local function unready(id)
          for _, k in ipairs({3, 4, 5, 12}) do redis.call('LREM', KEYS[k], 0, id) end
        end
        local function remove(j)
          unready(j.id)
          redis.call('ZREM', KEYS[6], j.id)
          redis.call('ZREM', KEYS[7], j.id)
          redis.call('HDEL', KEYS[1], j.id)
          redis.call('HDEL', KEYS[2], j.id)
        end
        local function fail(j, number)
          if j.dead then return end
          if j.json then
            local dead = {attempts = 0, code = 'orphan', message = lost, job = j.json}
            if j.batch ~= '' then dead.batch = j.batch end
            local letter = cjson.encode(dead)
            if j.labels then letter = string.sub(letter, 1, -2) .. ',"labels":' .. j.labels .. '}' end
            bury(KEYS[8], KEYS[9], j.id, letter)
          end
          redis.call('HINCRBY', KEYS[11], 'failed', 1)
          local batch = KEYS[10 + 3 * number]
          if number > 0 and redis.call('EXISTS', batch) == 1 then
            tell(KEYS[11], batch, KEYS[11 + 3 * number], KEYS[12 + 3 * number], {failed = 1},
                 {refused(j.id, j.json or '', 'failed', 'orphan', lost, j.labels)})
          end
        end
        local function mend(j, number)
          if j.kind == 'orphan' then
            redis.call('RPUSH', j.list, j.id)
            redis.call('LPUSH', KEYS[10], '1')
            redis.call('LTRIM', KEYS[10], 0, 255)
          elseif j.kind == 'two_states' then
            unready(j.id)
            if j.places[1] == 'lease' then redis.call('ZREM', KEYS[7], j.id) end
            if j.places[1] == 'ready' then redis.call('RPUSH', j.list, j.id) end
          elseif j.kind then
            remove(j)
            if j.kind ~= 'without_job' then fail(j, number) end
          end
        end
        local batches, faults = tonumber(ARGV[2]), {}
        for i = 3 + batches, #ARGV, 2 do
          local j, number = examine(ARGV[i]), tonumber(ARGV[i + 1])
          local undead = j.body and j.list and j.dead
          local failing = j.kind == 'without_meta' or j.kind == 'without_body'
          if ARGV[1] == '1' then
            if failing and j.batch ~= (number > 0 and ARGV[2 + number] or '') then
              j.kind = nil
            else
              mend(j, number)
            end
            if undead then
              redis.call('ZREM', KEYS[8], j.id)
              redis.call('HDEL', KEYS[9], j.id)
            end
          end
          local places = table.concat(j.places, ' + ')
          if j.kind then faults[#faults + 1] = {j.id, j.kind, places, j.batch} end
          if undead then faults[#faults + 1] = {j.id, 'undead', places, j.batch} end
        end
        return faults
        """
    )

    /// Forgets an epoch whose stage is empty.
    ///
    /// KEYS 1 epoch · 2 stages · 3 stage:<older>
    /// ARGV 1 the older epoch · 2 `1` to repair
    /// Returns 1 if it is in `stages`, is not the current one, and has nothing staged; otherwise 0.
    /// After a repair: the epoch is no longer in `stages`.
    static let auditStage = script(
        "auditStage",
        """
        if redis.call('GET', KEYS[1]) == ARGV[1] or redis.call('EXISTS', KEYS[3]) == 1 or
           redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 0 then
          return 0
        end
        if ARGV[2] == '1' then redis.call('SREM', KEYS[2], ARGV[1]) end
        return 1
        """
    )

    /// Adds a batch's own intake to `intakes` if it is missing there: the coordinator knows of no other intakes.
    ///
    /// KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 intakes · 4 intakewake
    /// ARGV 1 batch · 2 `1` to repair
    /// Returns 1 if the intake has jobs and is not in `intakes`, otherwise 0.
    /// After a repair: it is in `intakes`, with the batch's weight.
    static let auditIntake = script(
        "auditIntake",
        """
        if redis.call('LLEN', KEYS[1]) == 0 or redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
        if ARGV[2] == '1' then
          -- A key that is no hash has none, and answers with a table.
          local weight = tonumber(redis.pcall('HGET', KEYS[2], 'weight') or '1') or 1
          redis.call('ZADD', KEYS[3], weight, ARGV[1])
          redis.call('LPUSH', KEYS[4], '1')
          redis.call('LTRIM', KEYS[4], 0, 0)
        end
        return 1
        """
    )
}
