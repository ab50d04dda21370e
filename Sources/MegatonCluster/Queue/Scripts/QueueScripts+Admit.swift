extension QueueScripts {
    /// Moves jobs from the intakes into the leader's stage, which only the leader touches.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 intakes · 6 credit · 7 control · 8 round ·
    ///      9… intakes, the public one first
    /// ARGV 1 caller's name · 2 epoch · 3 maximum number of jobs · 4 number of jobs at the front of the stage that the
    ///      caller has already · 5 the round that the caller knows; then two for each intake: its batch, `` for the
    ///      public one · its weight
    /// Returns the jobs that are then in the stage behind those, oldest first, each `<batch>\\0<json>`; or the error
    /// NOTLEADER or STALEROUND. The round is then one higher: after a failover that has returned Redis to an earlier
    /// state, a leader that relies on its memory of the stage is refused.
    /// After: a job is in exactly one of intake and stage. Jobs that the stage held already come first, so that after
    /// a failure between `stage` and `admit` a leader resumes with the same jobs.
    /// A job of more than 1 MiB is cut and marked with a first byte 1, so that validation rejects it. One call moves
    /// about 1 MiB and returns at most 1 MiB, or one job: Redis serves no other client meanwhile, and a larger reply
    /// could not be read.
    /// Smooth weighted round robin, as in nginx: with each job, every intake that has jobs gains its weight, and the
    /// intake with the most credit provides the job and pays the sum of all weights. Remaining credit is kept in
    /// `credit`, so that the shares hold even if there is room for only one job at a time. A batch's own intake is
    /// forgotten once it is empty. Nothing is moved from the intakes while the queue drains.
    static let stage = script(
        "stage",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        if (redis.call('GET', KEYS[8]) or '0') ~= ARGV[5] then
          return redis.error_reply('STALEROUND the stage is not the one that its leader knows')
        end
        redis.call('INCR', KEYS[8])
        local most, had = tonumber(ARGV[3]), tonumber(ARGV[4])
        local want = most - math.max(redis.call('LLEN', KEYS[3]) - had, 0)
        if redis.call('HGET', KEYS[7], 'drain') == '1' then want = 0 end
        local open, total = {}, 0
        for k = 9, #KEYS do
          local at = 6 + 2 * (k - 9)
          if redis.call('EXISTS', KEYS[k]) == 1 then
            local intake = {key = KEYS[k], batch = ARGV[at], weight = tonumber(ARGV[at + 1])}
            intake.credit = tonumber(redis.call('HGET', KEYS[6], intake.batch) or '0')
            open[#open + 1] = intake
            total = total + intake.weight
          end
        end
        -- So many at a time that what is read beyond the limit stays small: large jobs one by one.
        local moved, page = 0, 1
        while want > 0 and #open > 0 and moved < 1048576 do
          local best = 1
          for i = 1, #open do
            open[i].credit = open[i].credit + open[i].weight
            if open[i].credit > open[best].credit then best = i end
          end
          local intake = open[best]
          -- Alone it would give and pay the same with each.
          local jobs = redis.call('RPOP', intake.key, #open == 1 and math.min(want, page) or 1)
          if jobs then
            intake.credit = intake.credit - total
            local before = moved
            for i, job in ipairs(jobs) do
              moved = moved + #job
              if #job > 1048576 then job = '\\1' .. string.sub(job, 1, 1024) end
              jobs[i] = intake.batch .. '\\0' .. job
            end
            redis.call('RPUSH', KEYS[3], unpack(jobs))
            want = want - #jobs
            page = (moved - before) / #jobs < 8192 and math.min(page * 2, 8) or 1
          else
            total = total - intake.weight
            table.remove(open, best)
          end
        end
        for i = 1, #open do redis.call('HSET', KEYS[6], open[i].batch, open[i].credit) end
        for k = 9, #KEYS do
          local batch = ARGV[6 + 2 * (k - 9)]
          if redis.call('EXISTS', KEYS[k]) == 0 then
            redis.call('HDEL', KEYS[6], batch)
            if k > 9 then redis.call('ZREM', KEYS[5], batch) end
          end
        end
        local staged, bytes, start, last = {}, 0, had, had + most - 1
        page = 1
        while start <= last and bytes < 1048576 do
          local jobs = redis.call('LRANGE', KEYS[3], start, math.min(start + page - 1, last))
          if #jobs == 0 then break end
          local before = bytes
          for _, job in ipairs(jobs) do
            bytes = bytes + #job
            if #staged > 0 and bytes > 1048576 then break end
            staged[#staged + 1] = job
          end
          start = start + #jobs
          page = (bytes - before) / #jobs < 8192 and math.min(page * 2, 8) or 1
        end
        if #staged > 0 then redis.call('SADD', KEYS[4], ARGV[2]) end
        return staged
        """
    )

    /// Moves jobs that an earlier leader staged and never admitted into the stage of this leader.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 stage:<older>
    /// ARGV 1 caller's name · 2 epoch · 3 the older epoch · 4 maximum number of jobs
    /// Returns how many were moved, or the error NOTLEADER. The older stage is forgotten once it is empty.
    static let replay = script(
        "replay",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        local moved = 0
        while moved < tonumber(ARGV[4]) and redis.call('LMOVE', KEYS[5], KEYS[3], 'LEFT', 'RIGHT') do
          moved = moved + 1
        end
        if moved > 0 then redis.call('SADD', KEYS[4], ARGV[2]) end
        if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('SREM', KEYS[4], ARGV[3]) end
        return moved
        """
    )

    /// Turns the first jobs of the stage into jobs that can be claimed, or into dead letters.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 body · 5 meta · 6-8 ready: high, normal, bulk · 9 wake · 10 dead ·
    ///      11 deadinfo · 12 stat · 13 batches · 14 cancelled · 15 round, then for each batch concerned: batch:<b>,
    ///      results:<b>, seen:<b>
    /// ARGV 1 caller's name · 2 epoch · 3 maximum number of wake tokens · 4 the round that the caller knows · 5 number
    ///      of batches · their names, then eight for each job:
    ///      key · `1`-`3` its priority, `@` and the digest of its source, or `x` if it is invalid · number of its
    ///      batch, 0 for none · `1` if it came through its batch's own intake · its JSON, or its `DeadJob` · the digest
    ///      that distinguishes it from other jobs, if its batch admits equal jobs only once, otherwise ``; or the
    ///      outcome of an invalid job · its content in 32 hex digits, if its id is to be compared with those that the
    ///      batch has had, otherwise `` · its labels as JSON, otherwise ``
    /// Returns {admitted, invalid or of a damaged batch or in conflict, duplicates, cancelled}, or the error NOTLEADER
    /// or STALEROUND. The round is then one higher.
    /// Before: the jobs are the first of the stage, in order. After: they have left the stage, and each is in exactly
    /// one of ready, dead, ended and waiting; its batch's `total` counts it.
    /// A job whose key its batch has had, or whose key is alive, is a duplicate if the content is the same: it ends as
    /// `deduplicated` with the outcome of the first job if that is known, or waits for it (at most 100 duplicates)
    /// until `finish` answers. With other content it becomes a dead letter with the code `id_conflict`, under a key of
    /// its own.
    /// A batch remembers 1,000,000 ids until it has ended, or for a day after its last job if it has no submitter.
    /// Beyond that, and without a batch, only jobs that are alive are compared, by their JSON. A job that a
    /// deduplicating batch has seen is a duplicate too.
    /// A batch whose key, counters or `seen` are damaged counts nothing and is not touched: its jobs become dead
    /// letters instead of ready, and each that ends here is counted in `damaged_batch_ends`. Jobs of other batches are
    /// admitted as if it did not exist. If only its ledger is damaged, it lacks outcomes but no jobs.
    static let admit = script(
        "admit",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        if (redis.call('GET', KEYS[15]) or '0') ~= ARGV[4] then
          return redis.error_reply('STALEROUND the stage is not the one that its leader knows')
        end
        local first = 6 + tonumber(ARGV[5])
        local last = first + 8 * math.min((#ARGV - first + 1) / 8, redis.call('LLEN', KEYS[3])) - 1
        local batches = {}
        for number = 1, tonumber(ARGV[5]) do
          batches[number] = {
            name = ARGV[5 + number], key = KEYS[13 + 3 * number], results = KEYS[14 + 3 * number],
            seen = KEYS[15 + 3 * number], total = 0, own = 0,
            damaged = not sound(KEYS[13 + 3 * number], KEYS[15 + 3 * number]),
            cancelled = redis.call('SISMEMBER', KEYS[14], ARGV[5 + number]) == 1
          }
        end
        redis.call('INCR', KEYS[15])
        local ids, alive = {}, {}
        for i = first, last, 8 do
          ids[#ids + 1] = ARGV[i]
          local batch = batches[tonumber(ARGV[i + 2])]
          if batch then
            batch.total = batch.total + 1
            if ARGV[i + 3] == '1' then batch.own = batch.own + 1 end
          end
        end
        -- A batch counts all of its jobs before the first of them ends here: it is not to be finished in between.
        for _, batch in ipairs(batches) do
          if batch.total > 0 and not batch.damaged then
            redis.call('HINCRBY', batch.key, 'total', batch.total)
            redis.call('HINCRBY', batch.key, 'own', batch.own)
            if redis.call('ZADD', KEYS[13], 'NX', now(), batch.name) == 1 then
              redis.call('HSETNX', batch.key, 'created', now())
            end
          end
        end
        -- By their meta, which is small: a body may have a megabyte.
        for i = 1, #ids, 1000 do
          local known = redis.call('HMGET', KEYS[5], unpack(ids, i, math.min(i + 999, #ids)))
          for k, meta in ipairs(known) do alive[ids[i + k - 1]] = meta and true end
        end
        local result = {0, 0, 0, 0}
        local fresh, bodies, metas, ready = {}, {}, {}, {{}, {}, {}}
        -- Who is alive is dead no more; but who dies after it, under the same id, is.
        local function revive()
          if all('ZREM', KEYS[10], fresh) > 0 then all('HDEL', KEYS[11], fresh) end
          fresh = {}
        end
        -- The JSON of what is admitted here, by its key.
        local texts = {}
        local function isSame(id, json)
          if texts[id] then return texts[id] == json end
          return redis.call('HSTRLEN', KEYS[4], id) == #json and redis.call('HGET', KEYS[4], id) == json
        end
        -- For a dead letter whose id is another job's.
        local function spare(id, i)
          return (string.find(id, '/', 1, true) and id or '/' .. id) .. '/' .. redis.call('GET', KEYS[15]) .. '.' .. i
        end
        local function ended(batch, counter, outcome)
          if batch and batch.damaged then
            redis.call('HINCRBY', KEYS[12], 'damaged_batch_ends', 1)
          elseif batch then
            tell(KEYS[12], batch.key, batch.results, batch.seen, {[counter] = 1}, {outcome}, true)
          end
        end
        local function duplicate(batch, id, json, labels, outcome)
          redis.call('HINCRBY', KEYS[12], 'deduplicated', 1)
          ended(batch, 'deduplicated', outcome or refused(id, json, 'deduplicated', 'duplicate_id',
                'The same job with this id is there already; its own line has the outcome.', labels))
          result[3] = result[3] + 1
        end
        local function conflict(batch, id, json, labels, i)
          local message = 'id is "' .. named(id) .. '", the id of another job ' ..
            (batch and 'of the batch "' .. batch.name .. '"' or 'that has not ended') ..
            ' with another source, renditions, output, credential or labels; give each job an id of its own'
          local letter = {attempts = 0, code = 'id_conflict', message = message, job = json, batch = batch and batch.name}
          letter = cjson.encode(letter)
          if labels ~= '' then letter = string.sub(letter, 1, -2) .. ',"labels":' .. labels .. '}' end
          revive()
          bury(KEYS[10], KEYS[11], spare(id, i), letter)
          redis.call('HINCRBY', KEYS[12], 'failed', 1)
          ended(batch, 'failed', refused(id, json, 'failed', 'id_conflict', message, labels))
          result[2] = result[2] + 1
        end
        -- Whether the job is another one with a key that is known, which has ended by that or waits for it.
        local function isKnown(batch, id, json, content, labels, i)
          local known = content ~= '' and redis.call('HGET', batch.seen, 'i' .. named(id))
          if not known and not alive[id] then return false end
          if not known then
            if isSame(id, json) then duplicate(batch, id, json, labels) else conflict(batch, id, json, labels, i) end
            return true
          end
          local state = string.sub(known, 34)
          local waiting = tonumber(state)
          if string.sub(known, 1, 32) ~= content then
            conflict(batch, id, json, labels, i)
          elseif string.sub(state, 1, 1) == '{' then
            duplicate(batch, id, json, labels, again(state))
          elseif waiting and waiting < 100 and alive[id] then
            redis.call('HSET', batch.seen, 'i' .. named(id), content .. ':' .. waiting + 1)
            redis.call('HINCRBY', KEYS[12], 'deduplicated', 1)
            result[3] = result[3] + 1
          else
            duplicate(batch, id, json, labels)
          end
          return true
        end
        for i = first, last, 8 do
          local id, kind, batch, json, extra = ARGV[i], ARGV[i+1], batches[tonumber(ARGV[i+2])], ARGV[i+4], ARGV[i+5]
          local content, labels = ARGV[i+6], ARGV[i+7]
          if kind == 'x' then
            revive()
            bury(KEYS[10], KEYS[11], alive[id] and spare(id, i) or id, json)
            redis.call('HINCRBY', KEYS[12], 'failed', 1)
            ended(batch, 'failed', extra)
            result[2] = result[2] + 1
          elseif batch and batch.cancelled then
            redis.call('HINCRBY', KEYS[12], 'cancelled', 1)
            ended(batch, 'cancelled',
                  refused(id, json, 'cancelled', 'cancelled', 'The batch was cancelled before the job began.', labels))
            result[4] = result[4] + 1
          elseif batch and batch.damaged then
            revive()
            bury(KEYS[10], KEYS[11], alive[id] and spare(id, i) or id, cjson.encode({
              attempts = 0, code = 'damaged_batch', batch = batch.name, job = json,
              message = 'A key of the batch is damaged, so that it cannot count its jobs.'
            }))
            redis.call('HINCRBY', KEYS[12], 'failed', 1)
            ended(batch)
            result[2] = result[2] + 1
          elseif isKnown(batch, id, json, content, labels, i) then
            -- It has ended, or waits for the first of its id.
          elseif extra ~= '' and redis.call('HSETNX', batch.seen, 'd' .. extra, '') == 0 then
            duplicate(batch, id, json, labels,
                      refused(id, json, 'deduplicated', 'duplicate', 'The batch has the same job already.', labels))
          else
            alive[id] = true
            texts[id] = json
            if content ~= '' and redis.call('HLEN', batch.seen) < 1000000 then
              redis.call('HSET', batch.seen, 'i' .. named(id), content .. ':0')
              batch.remembers = true
            end
            fresh[#fresh + 1] = id
            bodies[#bodies + 1] = id
            bodies[#bodies + 1] = json
            metas[#metas + 1] = id
            local priority, digest = string.match(kind, '^(%d)@?(.*)$')
            metas[#metas + 1] = pack(0, 0, '', priority, batch and batch.name or '', 0, digest)
            local list = ready[tonumber(priority)]
            list[#list + 1] = id
            result[1] = result[1] + 1
          end
        end
        all('HSET', KEYS[4], bodies)
        all('HSET', KEYS[5], metas)
        for k = 1, 3 do all('LPUSH', KEYS[5 + k], ready[k]) end
        revive()
        redis.call('LTRIM', KEYS[3], #ids, -1)
        for _, batch in ipairs(batches) do
          -- Nobody will say that such a batch is complete.
          if batch.remembers and redis.call('HEXISTS', batch.key, 'submitter') == 0 then
            redis.call('EXPIRE', batch.seen, 86400)
          end
        end
        local tokens = math.min(result[1], tonumber(ARGV[3]))
        for _ = 1, tokens do redis.call('LPUSH', KEYS[9], '1') end
        if tokens > 0 then redis.call('LTRIM', KEYS[9], 0, tonumber(ARGV[3]) - 1) end
        return result
        """
    )
}
