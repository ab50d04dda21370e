extension QueueScripts {
    /// Acquires or renews the leader's lease.
    ///
    /// KEYS 1 leader · 2 epoch
    /// ARGV 1 caller's name · 2 lease, ms
    /// Returns {1, epoch} to the leader, {0, ms left of the leader's lease} to the others.
    /// After: the epoch is one higher if the lease was newly acquired, so that `stage` and `admit` refuse later calls
    /// of the previous leader. A leader whose name begins with `reserve:` yields to any caller whose name does not.
    static let lead = script(
        "lead",
        """
        local leader = redis.call('GET', KEYS[1])
        if leader == ARGV[1] then
          redis.call('PEXPIRE', KEYS[1], ARGV[2])
          return {1, tonumber(redis.call('GET', KEYS[2]) or '0')}
        end
        local gives = leader and string.sub(leader, 1, 8) == 'reserve:' and string.sub(ARGV[1], 1, 8) ~= 'reserve:'
        if leader and not gives then return {0, redis.call('PTTL', KEYS[1])} end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return {1, redis.call('INCR', KEYS[2])}
        """
    )

    /// Publishes the leader's presets for processes that may have to take over.
    ///
    /// KEYS 1 presets
    /// ARGV 1 the presets, JSON
    /// Returns `OK`. `allow-oom`: a leader that could not publish would not lead, and a full queue could not be worked
    /// off.
    static let publish = script(
        "publish",
        """
        return redis.call('SET', KEYS[1], ARGV[1])
        """
    )

    /// Releases the leader's lease.
    ///
    /// KEYS 1 leader
    /// ARGV 1 caller's name
    /// Returns 1 if the caller was the leader, otherwise 0.
    static let resign = script(
        "resign",
        """
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        return 0
        """
    )
}
