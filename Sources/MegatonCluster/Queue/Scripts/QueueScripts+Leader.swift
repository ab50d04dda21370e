extension QueueScripts {
    /// Takes or keeps the lead.
    ///
    /// KEYS 1 leader · 2 epoch
    /// ARGV 1 who · 2 lease, ms
    /// Returns {1, epoch} to the leader, {0, ms left of the other's lease} to the others.
    /// After: the epoch has grown by one where the leader is a new one, so that what the one before still sends is
    /// refused by `stage` and `admit`. A leader whose name begins with `reserve:` gives way to anybody whose does not.
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

    /// Tells those who may have to take the leader's place what it knows.
    ///
    /// KEYS 1 presets
    /// ARGV 1 the presets, JSON
    /// Returns `OK`. `allow-oom`: a leader that could not say it would not lead, and a full queue not be worked off.
    static let publish = script(
        "publish",
        """
        return redis.call('SET', KEYS[1], ARGV[1])
        """
    )

    /// Gives the lead up.
    ///
    /// KEYS 1 leader
    /// ARGV 1 who
    /// Returns 1 if it was the leader.
    static let resign = script(
        "resign",
        """
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        return 0
        """
    )
}
