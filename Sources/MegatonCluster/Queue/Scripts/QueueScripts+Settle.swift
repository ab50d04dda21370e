extension QueueScripts {
    /// Ends a job for good.
    ///
    /// KEYS 1 lease · 2 body · 3 meta · 4 stat · 5 dead · 6 deadinfo · 7 batch:<b> · 8 results:<b> ·
    ///      9 seen:<b> (7 to 9 may be any names where the job has no batch: they are not touched)
    /// ARGV 1 id · 2 worker · 3 attempt · 4 `done`, `failed` or `cancelled` · 5 the outcome, JSON ·
    ///      6 the `DeadJob`, JSON, of a failed one · 7… pairs of counter and number, added to the batch
    /// Returns `ok`, or why the caller has no say any more: `gone` (ended already), `fenced` (another attempt runs),
    /// `nolease` (the lease ran out; another attempt will run).
    /// After `ok`: the job is nowhere but, failed, in dead; its batch counts it, once. After anything else: nothing has
    /// changed.
    static let settle = script(
        "settle",
        """
        local m = redis.call('HGET', KEYS[3], ARGV[1])
        if not m then return 'gone' end
        local a, s, w, p, b = meta(m)
        if a ~= tonumber(ARGV[3]) or w ~= ARGV[2] then return 'fenced' end
        if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 'nolease' end
        redis.call('HDEL', KEYS[2], ARGV[1])
        redis.call('HDEL', KEYS[3], ARGV[1])
        redis.call('HINCRBY', KEYS[4], ARGV[4], 1)
        if ARGV[4] == 'failed' then
          bury(KEYS[5], KEYS[6], ARGV[1], ARGV[6])
        end
        if b ~= '' then
          for i = 7, #ARGV, 2 do redis.call('HINCRBY', KEYS[7], ARGV[i], ARGV[i + 1]) end
          finish(KEYS[7], KEYS[8], KEYS[9], ARGV[4], ARGV[5])
        end
        return 'ok'
        """
    )

    /// Puts a job off to be tried again.
    ///
    /// KEYS 1 lease · 2 meta · 3 delay · 4 stat · 5 batch:<b> (not touched where the job has none) · 6 cancelled ·
    ///      7-9 ready: high, normal, bulk · 10 wake
    /// ARGV 1 id · 2 worker · 3 attempt · 4 delay, ms · 5 `1`: the attempt counts · 6… pairs of counter and number, added to the
    ///      batch
    /// Returns as `settle` does. After `ok`: the job is in delay, due that much later, and its stalls
    /// are forgiven: its worker has survived it. One of a cancelled batch is ready at once, to be ended.
    static let retry = script(
        "retry",
        """
        local m = redis.call('HGET', KEYS[2], ARGV[1])
        if not m then return 'gone' end
        local a, s, w, p, b, f = meta(m)
        if a ~= tonumber(ARGV[3]) or w ~= ARGV[2] then return 'fenced' end
        if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 'nolease' end
        if ARGV[5] ~= '1' then f = f + 1 end
        redis.call('HSET', KEYS[2], ARGV[1], pack(a, 0, '', p, b, f))
        if b ~= '' and redis.call('SISMEMBER', KEYS[6], b) == 1 then
          redis.call('RPUSH', KEYS[6 + tonumber(p)], ARGV[1])
          redis.call('LPUSH', KEYS[10], '1')
          redis.call('LTRIM', KEYS[10], 0, 255)
        else
          redis.call('ZADD', KEYS[3], now() + tonumber(ARGV[4]), ARGV[1])
        end
        redis.call('HINCRBY', KEYS[4], 'retried', 1)
        if b ~= '' then
          for i = 6, #ARGV, 2 do redis.call('HINCRBY', KEYS[5], ARGV[i], ARGV[i + 1]) end
        end
        return 'ok'
        """
    )
}
