internal import MegatonRedis

/// The scripts of the shared cache. None changes what another flight of the same key has begun since.
enum FlightScripts {
    /// Looks an entry up, and takes the lead of making it if it is neither there nor being made.
    ///
    /// KEYS 1 entry · 2 flight · 3 negative
    /// ARGV 1 owner · 2 lease, ms
    /// Returns {`hit`, ms it is still fresh, m, chunk 0} · {`failed`, why, ms left} · {`uncacheable`}: everybody leads ·
    ///      {`wait`, ms left} · {`lead`, token}.
    /// After `lead`: the flight is the owner's for the lease. Tokens only grow, also when the entry or the flight was
    /// evicted in between, unless Redis' clock steps back.
    static let begin = RedisScript(
        name: "begin",
        source: """
            #!lua
            local t = redis.call('TIME')
            local us = t[1] * 1000000 + t[2]
            local e = redis.call('HMGET', KEYS[1], 'x', 'm', '0', 't')
            local left = e[1] and math.floor(tonumber(e[1]) - us / 1000) or 0
            if left > 0 then return {'hit', left, e[2], e[3]} end
            local failed = redis.call('GET', KEYS[3])
            if failed == 'U' then return {'uncacheable'} end
            if failed then return {'failed', failed, redis.call('PTTL', KEYS[3])} end
            local owner = redis.call('HGET', KEYS[2], 'o')
            if owner and owner ~= ARGV[1] then return {'wait', redis.call('PTTL', KEYS[2])} end
            local last = math.max(tonumber(e[4] or '0'), tonumber(redis.call('HGET', KEYS[2], 't') or '0'))
            local token = string.format('%.0f', math.max(us, last + 1))
            redis.call('HSET', KEYS[2], 'o', ARGV[1], 't', token)
            redis.call('PEXPIRE', KEYS[2], ARGV[2])
            return {'lead', token}
            """
    )

    /// Prolongs a flight.
    ///
    /// KEYS 1 flight
    /// ARGV 1 owner · 2 token · 3 lease, ms
    /// Returns 1, or 0 where the flight is not the owner's any more.
    static let renew = RedisScript(
        name: "renewFlight",
        source: """
            #!lua flags=allow-oom
            local f = redis.call('HMGET', KEYS[1], 'o', 't')
            if f[1] ~= ARGV[1] or f[2] ~= ARGV[2] then return 0 end
            return redis.call('PEXPIRE', KEYS[1], ARGV[3])
            """
    )

    /// Keeps an entry, then ends its flight and tells those who wait: data first.
    ///
    /// KEYS 1 entry · 2 flight · 3 temporary · 4 negative
    /// ARGV 1 owner · 2 token · 3 keep: `0` nothing, `1` the chunks given here, `2` those in the temporary key ·
    ///      4 ms until Redis forgets the entry · 5 ms for which it is fresh · 6 m · 7 channel · 8 message ·
    ///      9 number of chunks · 10… chunks
    /// Returns `ok`, or `stale`: a newer flight has begun or ended, and nothing but the temporary key has changed; or
    ///      `torn`: chunks of the temporary key are missing, so that the flight has ended without an entry.
    /// After keeping nothing a mark lets those who waited go side by side for ten seconds, and not one after the other.
    static let finish = RedisScript(
        name: "finishFlight",
        source: """
            #!lua
            local f = redis.call('HMGET', KEYS[2], 'o', 't')
            local stored = redis.call('HGET', KEYS[1], 't')
            if (f[1] and (f[1] ~= ARGV[1] or f[2] ~= ARGV[2])) or
               (stored and tonumber(stored) >= tonumber(ARGV[2])) then
              redis.call('UNLINK', KEYS[3])
              return 'stale'
            end
            local answer = 'ok'
            if ARGV[3] == '2' and redis.call('HLEN', KEYS[3]) ~= tonumber(ARGV[9]) then
              redis.call('UNLINK', KEYS[3])
              answer = 'torn'
            elseif ARGV[3] ~= '0' then
              redis.call('UNLINK', KEYS[1])
              if ARGV[3] == '2' then redis.call('RENAME', KEYS[3], KEYS[1]) end
              local t = redis.call('TIME')
              local now = t[1] * 1000 + math.floor(t[2] / 1000)
              redis.call('HSET', KEYS[1], 'm', ARGV[6], 't', ARGV[2], 'x', string.format('%.0f', now + ARGV[5]))
              for i = 10, #ARGV do redis.call('HSET', KEYS[1], i - 10, ARGV[i]) end
              redis.call('PEXPIRE', KEYS[1], ARGV[4])
            end
            redis.call('UNLINK', KEYS[2], KEYS[4])
            if ARGV[3] == '0' then redis.call('SET', KEYS[4], 'U', 'PX', 10000) end
            redis.call('PUBLISH', ARGV[7], ARGV[8])
            return answer
            """
    )

    /// Deletes an entry that is damaged, unless another has taken its place since it was read.
    ///
    /// KEYS 1 entry
    /// ARGV 1 m as it was read
    /// Returns 1 if it was deleted.
    static let drop = RedisScript(
        name: "dropEntry",
        source: """
            #!lua flags=allow-oom
            if redis.call('HGET', KEYS[1], 'm') ~= ARGV[1] then return 0 end
            return redis.call('UNLINK', KEYS[1])
            """
    )

    /// Ends a flight without an entry, remembers why for a moment, and tells those who wait.
    ///
    /// KEYS 1 flight · 2 negative
    /// ARGV 1 owner · 2 token · 3 ms to remember, 0 not at all · 4 why · 5 channel · 6 message
    /// Returns `ok`, or `stale` where the flight is not the owner's any more.
    static let fail = RedisScript(
        name: "failFlight",
        source: """
            #!lua flags=allow-oom
            local f = redis.call('HMGET', KEYS[1], 'o', 't')
            if f[1] ~= ARGV[1] or f[2] ~= ARGV[2] then return 'stale' end
            if tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3]) end
            redis.call('UNLINK', KEYS[1])
            redis.call('PUBLISH', ARGV[5], ARGV[6])
            return 'ok'
            """
    )
}
