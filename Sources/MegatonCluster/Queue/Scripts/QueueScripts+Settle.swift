extension QueueScripts {
    /// Ends jobs for good. Each is handled by itself: a refused one does not hold the others up.
    ///
    /// KEYS 1 lease · 2 body · 3 meta · 4 stat · 5 dead · 6 deadinfo · 7 crashes · 8 isolating, then for each batch
    ///      concerned: batch:<b>, results:<b>, seen:<b>
    /// ARGV 1 worker · 2 number of jobs, then for each of them: id · attempt · `done`, `failed` or `cancelled` · number
    ///      of its batch, 0 for none · the outcome as JSON, if it has a batch · the `DeadJob` as JSON, if it failed ·
    ///      number of pairs that follow · pairs of counter and number, added to the batch
    /// Returns for each job, in order, `ok` or one of: `gone` (already ended), `fenced` (another attempt runs),
    /// `nolease` (the lease ran out; another attempt will run), `damaged` (it has ended as after `ok`, but a key or a
    /// counter of its batch is damaged, so that the batch may not have counted it).
    /// The source of a job that is done is no longer suspected.
    /// After `ok`: the job is nowhere except, if it failed, in dead; its batch counts it, once. After `damaged`: the
    /// same, except for the batch; jobs of other batches end as if that batch did not exist. After any other reply:
    /// nothing about the job has changed.
    static let settle = script(
        "settle",
        """
        local jobs, ids, at = {}, {}, 3
        for i = 1, tonumber(ARGV[2]) do
          jobs[i], ids[i] = at, ARGV[at]
          at = at + 7 + 2 * tonumber(ARGV[at + 6])
        end
        local metas = redis.call('HMGET', KEYS[3], unpack(ids))
        local leases = redis.call('ZMSCORE', KEYS[1], unpack(ids))
        local verdicts, ended, isEnded, stats, batches, sources, cleared = {}, {}, {}, {}, {}, {}, {}
        for i, at in ipairs(jobs) do
          local id, status, number = ids[i], ARGV[at + 2], tonumber(ARGV[at + 3])
          local attempt, worker, digest
          if metas[i] and not isEnded[id] then
            local a, _, w, _, _, _, d = meta(metas[i])
            attempt, worker, digest = a, w, d
          end
          if not attempt then
            verdicts[i] = 'gone'
          elseif attempt ~= tonumber(ARGV[at + 1]) or worker ~= ARGV[1] then
            verdicts[i] = 'fenced'
          elseif not leases[i] then
            verdicts[i] = 'nolease'
          else
            verdicts[i] = 'ok'
            isEnded[id] = true
            ended[#ended + 1] = id
            stats[status] = (stats[status] or 0) + 1
            if digest ~= '' then
              sources[#sources + 1] = digest
              if status == 'done' then cleared[#cleared + 1] = digest end
            end
            if status == 'failed' then bury(KEYS[5], KEYS[6], id, ARGV[at + 5]) end
            if number > 0 then
              local batch = batches[number] or {counts = {}, outcomes = {}, ends = {}}
              batches[number] = batch
              batch.ends[#batch.ends + 1] = i
              batch.counts[status] = (batch.counts[status] or 0) + 1
              for pair = at + 7, at + 5 + 2 * tonumber(ARGV[at + 6]), 2 do
                batch.counts[ARGV[pair]] = (batch.counts[ARGV[pair]] or 0) + tonumber(ARGV[pair + 1])
              end
              batch.outcomes[#batch.outcomes + 1] = ARGV[at + 4]
            end
          end
        end
        all('ZREM', KEYS[1], ended)
        all('HDEL', KEYS[2], ended)
        all('HDEL', KEYS[3], ended)
        if #sources > 0 and redis.call('EXISTS', KEYS[7]) == 1 then
          all('ZREM', KEYS[7], cleared)
          all('ZREM', KEYS[8], sources)
        end
        for status, count in pairs(stats) do redis.call('HINCRBY', KEYS[4], status, count) end
        for number, batch in pairs(batches) do
          local key = 6 + 3 * number
          -- By now the jobs have ended: a batch that cannot count must not keep the others from it.
          if not tell(KEYS[4], KEYS[key], KEYS[key + 1], KEYS[key + 2], batch.counts, batch.outcomes) then
            for _, i in ipairs(batch.ends) do verdicts[i] = 'damaged' end
          end
        end
        return verdicts
        """
    )

    /// Delays a job for another attempt.
    ///
    /// KEYS 1 lease · 2 meta · 3 delay · 4 stat · 5 batch:<b> (not touched if the job has none) · 6 cancelled ·
    ///      7-9 ready: high, normal, bulk · 10 wake · 11 isolating
    /// ARGV 1 id · 2 worker · 3 attempt · 4 delay, ms · 5 `1` if the attempt counts · 6… pairs of counter and number,
    ///      added to the batch
    /// Returns the same as `settle` for one job. After `ok`, and after `damaged` if the batch cannot count: the job is
    /// in delay, due after that time, and its stalls are reset, as its worker has survived it. A job of a cancelled
    /// batch is ready at once instead, so that a worker ends it.
    static let retry = script(
        "retry",
        """
        local m = redis.call('HGET', KEYS[2], ARGV[1])
        if not m then return 'gone' end
        local a, s, w, p, b, f, d = meta(m)
        if a ~= tonumber(ARGV[3]) or w ~= ARGV[2] then return 'fenced' end
        if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 'nolease' end
        if ARGV[5] ~= '1' then f = f + 1 end
        if d ~= '' then redis.call('ZREM', KEYS[11], d) end
        redis.call('HSET', KEYS[2], ARGV[1], pack(a, 0, '', p, b, f, d))
        if b ~= '' and redis.call('SISMEMBER', KEYS[6], b) == 1 then
          redis.call('RPUSH', KEYS[6 + tonumber(p)], ARGV[1])
          redis.call('LPUSH', KEYS[10], '1')
          redis.call('LTRIM', KEYS[10], 0, 255)
        else
          redis.call('ZADD', KEYS[3], now() + tonumber(ARGV[4]), ARGV[1])
        end
        redis.call('HINCRBY', KEYS[4], 'retried', 1)
        if b ~= '' then
          for i = 6, #ARGV, 2 do
            local counted = redis.pcall('HINCRBY', KEYS[5], ARGV[i], ARGV[i + 1])
            if type(counted) == 'table' and counted.err then return 'damaged' end
          end
        end
        return 'ok'
        """
    )
}
