extension QueueScripts {
    /// Makes delayed jobs of a cancelled batch ready at once, so that they end when a worker claims them and not when
    /// they are due.
    ///
    /// KEYS 1 delay · 2 meta · 3-5 ready: high, normal, bulk · 6 wake
    /// ARGV 1 batch · 2… ids
    /// Returns how many were made ready. Ids that are no longer delayed, or belong to another batch, are left alone.
    static let hasten = script(
        "hasten",
        """
        local moved = 0
        for i = 2, #ARGV do
          local m = redis.call('HGET', KEYS[2], ARGV[i])
          if m then
            local _, _, _, p, b = meta(m)
            if b == ARGV[1] and redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
              redis.call('RPUSH', KEYS[2 + tonumber(p)], ARGV[i])
              redis.call('LPUSH', KEYS[6], '1')
              moved = moved + 1
            end
          end
        end
        if moved > 0 then redis.call('LTRIM', KEYS[6], 0, 255) end
        return moved
        """
    )

    /// Forgets a batch that has ended, or one that was never closed and has no unfinished job left.
    ///
    /// KEYS 1 batch:<b> · 2 results:<b> · 3 seen:<b> · 4 batches · 5 cancelled · 6 jobs:<b> · 7 seen:<b> of
    ///      earlier versions
    /// ARGV 1 batch · 2 minimum ms since its end, or since its creation if it has not ended
    /// Returns 1 if it was forgotten, 0 if one of its jobs is left or it is younger.
    /// A cancelled batch stays in `cancelled` for as long as it is known, so that jobs that arrive late are refused.
    static let forgetBatch = script(
        "forgetBatch",
        """
        local v = redis.call('HMGET', KEYS[1], 'finished', 'created', 'total', 'done', 'failed', 'cancelled',
                             'deduplicated')
        local since = tonumber(v[1] or v[2] or '0')
        local ended = 0
        for i = 4, 7 do ended = ended + (tonumber(v[i]) or 0) end
        if since > now() - tonumber(ARGV[2]) or ended < (tonumber(v[3]) or 0) or redis.call('EXISTS', KEYS[6]) == 1 then
          return 0
        end
        redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[7])
        redis.call('ZREM', KEYS[4], ARGV[1])
        redis.call('SREM', KEYS[5], ARGV[1])
        return 1
        """
    )

    /// Sets or clears `paused` or `drain`.
    ///
    /// KEYS 1 control · 2 wake · 3 intakewake · 4 workers
    /// ARGV 1 field · 2 `1` or `0`
    /// Returns the number of workers that were woken.
    /// After clearing: workers and the coordinator look for work at once and not when their sleep ends.
    static let control = script(
        "control",
        """
        redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
        if ARGV[2] == '1' then return 0 end
        local workers = math.min(256, redis.call('ZCARD', KEYS[4]))
        for _ = 1, workers do redis.call('LPUSH', KEYS[2], '1') end
        if workers > 0 then redis.call('LTRIM', KEYS[2], 0, 255) end
        redis.call('LPUSH', KEYS[3], '1')
        redis.call('LTRIM', KEYS[3], 0, 0)
        return workers
        """
    )

    /// Moves dead jobs back to the public intake; they are validated like new ones.
    ///
    /// KEYS 1 dead · 2 deadinfo · 3 jobs · 4 stat · 5 crashes
    /// ARGV three for each job: id · the JSON to push · the digest of its source, which is no longer suspected
    /// Returns how many were requeued. An id that is not dead (any more) is skipped, so that nothing is pushed twice.
    /// The jobs have no batch, only its scope for their ids: the batch that they died in has counted them as failed,
    /// once. Not `allow-oom`, as this is new work.
    static let requeue = script(
        "requeue",
        allowsOutOfMemory: false,
        """
        local pushed = 0
        for i = 1, #ARGV, 3 do
          if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
            redis.call('HDEL', KEYS[2], ARGV[i])
            redis.call('ZREM', KEYS[5], ARGV[i + 2])
            redis.call('LPUSH', KEYS[3], ARGV[i + 1])
            pushed = pushed + 1
          end
        end
        if pushed > 0 then redis.call('HINCRBY', KEYS[4], 'requeued', pushed) end
        return pushed
        """
    )

    /// Deletes dead letters for good.
    ///
    /// KEYS 1 dead · 2 deadinfo
    /// ARGV ids
    /// Returns how many there were.
    static let drop = script(
        "drop",
        """
        local dropped = 0
        for i = 1, #ARGV do
          dropped = dropped + redis.call('ZREM', KEYS[1], ARGV[i])
          redis.call('HDEL', KEYS[2], ARGV[i])
        end
        return dropped
        """
    )
}
