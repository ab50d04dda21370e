extension QueueScripts {
    /// Pushes jobs to a batch's own intake, each exactly once.
    ///
    /// KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 batches · 4 intakes · 5 intakewake
    /// ARGV 1 batch · 2 number of the first job, counted from 0 · 3 `1`: no more will come · 4 `1`: keep a ledger ·
    ///      5… the jobs' JSON
    /// Returns how many jobs of the batch are submitted now.
    /// Before: any. After: `submitted` = first + count, however often the call was repeated: the number of the first
    /// job says which of them are there already. That is what makes it safe to repeat after a lost reply.
    /// Not `allow-oom`: a full Redis refuses new work.
    static let submit = script(
        "submit", allowsOutOfMemory: false,
        """
        local have = tonumber(redis.call('HGET', KEYS[2], 'submitted') or '0')
        local first = tonumber(ARGV[2])
        if first > have then return redis.error_reply('ERR jobs of the batch are missing before this one') end
        if redis.call('ZADD', KEYS[3], 'NX', now(), ARGV[1]) == 1 then
          redis.call('HSET', KEYS[2], 'created', now(), 'ledger', ARGV[4])
        end
        for i = 5 + (have - first), #ARGV do
          redis.call('LPUSH', KEYS[1], ARGV[i])
          have = have + 1
        end
        redis.call('HSET', KEYS[2], 'submitted', have)
        redis.call('ZADD', KEYS[4], 'NX', now(), ARGV[1])
        redis.call('LPUSH', KEYS[5], '1')
        redis.call('LTRIM', KEYS[5], 0, 0)
        if ARGV[3] == '1' then
          redis.call('HSET', KEYS[2], 'closed', '1')
          local v = redis.call('HMGET', KEYS[2], 'total', 'done', 'failed', 'cancelled', 'deduplicated')
          local ended = 0
          for i = 2, 5 do ended = ended + (tonumber(v[i]) or 0) end
          if (tonumber(v[1]) or 0) >= have and ended >= have then redis.call('HSETNX', KEYS[2], 'finished', now()) end
        end
        return have
        """)

    /// Drops what has not been staged of a batch, and marks the rest as no longer wanted.
    ///
    /// KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 cancelled · 4 intakes
    /// ARGV 1 batch
    /// Returns how many jobs were dropped.
    /// After: the batch is closed, the dropped jobs count as cancelled; jobs that are ready, delayed or staged end as
    /// cancelled when somebody comes to them, and those that are running when their worker renews next.
    static let cancelBatch = script(
        "cancelBatch",
        """
        local dropped = redis.call('LLEN', KEYS[1])
        redis.call('UNLINK', KEYS[1])
        redis.call('SADD', KEYS[3], ARGV[1])
        redis.call('ZREM', KEYS[4], ARGV[1])
        redis.call('HSET', KEYS[2], 'closed', '1')
        if dropped > 0 then
          redis.call('HINCRBY', KEYS[2], 'total', dropped)
          redis.call('HINCRBY', KEYS[2], 'cancelled', dropped)
        end
        local v = redis.call('HMGET', KEYS[2], 'submitted', 'total', 'done', 'failed', 'cancelled', 'deduplicated')
        local ended = 0
        for i = 3, 6 do ended = ended + (tonumber(v[i]) or 0) end
        local total = tonumber(v[2]) or 0
        if (tonumber(v[1]) or 0) <= total and ended >= total then redis.call('HSETNX', KEYS[2], 'finished', now()) end
        return dropped
        """)
}
