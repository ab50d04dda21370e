extension QueueScripts {
    /// Pushes jobs to a batch's own intake, each exactly once.
    ///
    /// KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 batches · 4 intakes · 5 intakewake · 6 cancelled · 7 seen:<batch>
    /// ARGV 1 batch · 2 number of the first job, counted from 0 · 3 `1` if no more will come · 4 `1` to keep a ledger ·
    ///      5 `1` to admit equal jobs only once · 6 the batch's weight · 7 the submitter: a batch has only one · 8 `1`
    ///      if no id so far can occur twice, so that none has to be remembered · 9… the jobs' JSON
    /// Returns how many jobs of the batch are submitted now, or the error BATCHEXISTS, or ERR if jobs before the first
    /// one are missing.
    /// Before: any state. After: `submitted` = first + count, however often the call was repeated: the number of the
    /// first job shows which of them are there already, so that a call can be repeated after a lost reply. A cancelled
    /// batch accepts no more jobs.
    /// Not `allow-oom`: a full Redis refuses new work.
    static let submit = script(
        "submit",
        allowsOutOfMemory: false,
        """
        if redis.call('HSETNX', KEYS[2], 'submitter', ARGV[7]) == 0 and
           redis.call('HGET', KEYS[2], 'submitter') ~= ARGV[7] then
          return redis.error_reply('BATCHEXISTS a batch of this name has been submitted before')
        end
        if redis.call('SISMEMBER', KEYS[6], ARGV[1]) == 1 then
          return tonumber(redis.call('HGET', KEYS[2], 'submitted') or '0')
        end
        local have = tonumber(redis.call('HGET', KEYS[2], 'submitted') or '0')
        local first = tonumber(ARGV[2])
        if first > have then return redis.error_reply('ERR jobs of the batch are missing before this one') end
        if redis.call('ZADD', KEYS[3], 'NX', now(), ARGV[1]) == 1 then
          redis.call('HSET', KEYS[2], 'created', now())
        end
        redis.call('HSET', KEYS[2], 'ledger', ARGV[4], 'deduplicate', ARGV[5], 'weight', ARGV[6],
                   'unique', ARGV[8])
        for i = 9 + (have - first), #ARGV do
          redis.call('LPUSH', KEYS[1], ARGV[i])
          have = have + 1
        end
        redis.call('HSET', KEYS[2], 'submitted', have)
        redis.call('ZADD', KEYS[4], ARGV[6], ARGV[1])
        redis.call('LPUSH', KEYS[5], '1')
        redis.call('LTRIM', KEYS[5], 0, 0)
        if ARGV[3] == '1' then
          redis.call('HSET', KEYS[2], 'closed', '1')
          close(KEYS[2], KEYS[7])
        end
        return have
        """
    )

    /// Cancels a batch: drops its jobs that have not been staged, and marks the rest as no longer wanted.
    ///
    /// KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 cancelled · 4 intakes · 5 seen:<batch> · 6 stat
    /// ARGV 1 batch
    /// Returns how many jobs were dropped, or the error NOBATCH.
    /// After: the batch is closed, and the dropped jobs count as cancelled. Jobs that are ready, delayed or staged end
    /// as cancelled when a worker or the coordinator reaches them, and running jobs when their worker renews next.
    static let cancelBatch = script(
        "cancelBatch",
        """
        if redis.call('EXISTS', KEYS[2]) == 0 then return redis.error_reply('NOBATCH there is no batch of this name') end
        local dropped = redis.call('LLEN', KEYS[1])
        redis.call('UNLINK', KEYS[1])
        redis.call('SADD', KEYS[3], ARGV[1])
        redis.call('ZREM', KEYS[4], ARGV[1])
        redis.call('HSET', KEYS[2], 'closed', '1')
        if dropped > 0 then
          redis.call('HINCRBY', KEYS[2], 'total', dropped)
          redis.call('HINCRBY', KEYS[2], 'own', dropped)
          redis.call('HINCRBY', KEYS[2], 'cancelled', dropped)
          redis.call('HINCRBY', KEYS[6], 'cancelled', dropped)
        end
        close(KEYS[2], KEYS[5])
        return dropped
        """
    )

    /// Reads a batch's ledger and deletes the outcomes that its reader has received.
    ///
    /// KEYS 1 results:<batch> · 2 batch:<batch>
    /// ARGV 1 number of outcomes that the reader has in all · 2 maximum number of outcomes to return
    /// Returns the next outcomes, oldest first: 1 MiB and at most 32 more, as Redis serves no other client meanwhile.
    /// Or the error OTHERREADER, if another reader has received outcomes that this one has not.
    /// After: the outcomes that the reader has are deleted, and `read` counts them; the rest stays, so that a lost
    /// reply loses nothing and the call may be repeated.
    static let results = script(
        "results",
        """
        local read = tonumber(redis.call('HGET', KEYS[2], 'read') or '0')
        local kept = tonumber(ARGV[1])
        if kept < read then
          return redis.error_reply('OTHERREADER outcomes of this batch were read by another reader')
        end
        if kept > read then
          redis.call('LTRIM', KEYS[1], kept - read, -1)
          redis.call('HSET', KEYS[2], 'read', kept)
        end
        local outcomes, bytes, most = {}, 0, tonumber(ARGV[2])
        while #outcomes < most and bytes < 1048576 do
          local page = redis.call('LRANGE', KEYS[1], #outcomes, math.min(#outcomes + 32, most) - 1)
          if #page == 0 then break end
          for _, outcome in ipairs(page) do
            bytes = bytes + #outcome
            outcomes[#outcomes + 1] = outcome
          end
        end
        return outcomes
        """
    )
}
