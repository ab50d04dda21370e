internal import MegatonRedis

/// Lua scripts of the shared cache. No script changes the state of a newer flight of the same key.
enum FlightScripts {
    /// Looks an entry up, and makes the caller the leader of its flight if the entry is neither fresh nor being made.
    ///
    /// KEYS 1 entry · 2 flight · 3 negative
    /// ARGV 1 owner · 2 lease, ms · 3 token of the flight that the caller has waited for, or 0 · 4 `1` if the owner is
    ///      working on its own flight of this key, `0` if it knows of none · 5 maximum age of a remembered failure that
    ///      is returned, ms; -1 for any age
    /// Returns {`hit`, ms for which the entry is still fresh, m, chunk 0} · {`failed`, error, ms left, old…} ·
    ///      {`shared`, error, ms left, old…}: the failure of the flight of ARGV 3, or of a later one, at any age ·
    ///      {`uncacheable`, token}: all callers may lead in parallel, and call `finish` with such a token if they have
    ///      an entry · {`wait`, ms left, token, old…} · {`lead`, token, old…}. The fields old… are absent, or describe
    ///      the stale entry: ms since it became stale, m, chunk 0; `wait` has them only while that entry may be served.
    /// An entry that the flight of ARGV 3, or a later one, has stored is a hit for the caller, fresh or not.
    /// `allow-oom`, as a full cache can still be read; the key of a flight is small and expires with its lease.
    /// After `wait`: the flight is marked, so that its end is published. After `lead`: the owner holds the flight for
    /// the lease. Tokens only grow, even if the entry or the flight was evicted in between, unless Redis' clock steps
    /// back.
    static let begin = RedisScript(
        name: "begin",
        source: """
            #!lua flags=allow-oom
            local t = redis.call('TIME')
            local us = t[1] * 1000000 + t[2]
            local e = redis.call('HMGET', KEYS[1], 'x', 's', 't')
            local left = math.floor(tonumber(e[1] or '0') - us / 1000)
            local function add(reply, ms)
              local d = redis.call('HMGET', KEYS[1], 'm', '0')
              local n = #reply
              reply[n + 1], reply[n + 2], reply[n + 3] = ms, d[1], d[2]
              return reply
            end
            local awaited, stored = tonumber(ARGV[3]), tonumber(e[3] or '0')
            if left > 0 or (awaited > 0 and stored >= awaited) then return add({'hit'}, math.max(0, left)) end
            local failed = redis.call('GET', KEYS[3])
            if failed == 'U' then return {'uncacheable', string.format('%.0f', math.max(us, stored + 1))} end
            if failed then
              local at, token, kind = string.match(failed, '^{"at":(%d+),"token":(%d+),"kind":"(%a)"')
              local most, word = tonumber(ARGV[5]), nil
              if awaited > 0 and at and tonumber(token) >= awaited then
                word = 'shared'
              elseif kind == 'b' or (kind ~= 'w' and (most < 0 or (at and us / 1000 - at <= most))) then
                word = 'failed'
              end
              if word then
                local reply = {word, failed, redis.call('PTTL', KEYS[3])}
                return e[1] and add(reply, -left) or reply
              end
            end
            local f = redis.call('HMGET', KEYS[2], 'o', 't')
            if f[1] and (f[1] ~= ARGV[1] or ARGV[4] == '1') then
              redis.call('HSET', KEYS[2], 'w', '1')
              local reply = {'wait', redis.call('PTTL', KEYS[2]), f[2] or '0'}
              return tonumber(e[2] or '0') > us / 1000 and add(reply, -left) or reply
            end
            local last = math.max(stored, tonumber(f[2] or '0'))
            local token = string.format('%.0f', math.max(us, last + 1))
            redis.call('HSET', KEYS[2], 'o', ARGV[1], 't', token)
            redis.call('PEXPIRE', KEYS[2], ARGV[2])
            return e[1] and add({'lead', token}, -left) or {'lead', token}
            """
    )

    /// Looks an entry up without leading a flight.
    ///
    /// KEYS 1 entry
    /// ARGV 1 `1` to find stale entries too
    /// Returns {ms for which the entry is still fresh, m, chunk 0}, or {} if there is no entry, or only a stale one
    ///      that was not asked for. The ms are negative for a stale entry. Changes nothing.
    static let look = RedisScript(
        name: "look",
        source: """
            #!lua flags=no-writes
            local t = redis.call('TIME')
            local e = redis.call('HMGET', KEYS[1], 'x', 'm', '0')
            local left = math.floor(tonumber(e[1] or '0') - (t[1] * 1000 + t[2] / 1000))
            if not e[2] or (left <= 0 and ARGV[1] ~= '1') then return {} end
            return {left, e[2], e[3]}
            """
    )

    /// Renews the lease of a flight.
    ///
    /// KEYS 1 flight
    /// ARGV 1 owner · 2 token · 3 lease, ms
    /// Returns 1, or 0 if the owner no longer holds the flight.
    static let renew = RedisScript(
        name: "renewFlight",
        source: """
            #!lua flags=allow-oom
            local f = redis.call('HMGET', KEYS[1], 'o', 't')
            if f[1] ~= ARGV[1] or f[2] ~= ARGV[2] then return 0 end
            return redis.call('PEXPIRE', KEYS[1], ARGV[3])
            """
    )

    /// Stores an entry, then ends its flight and notifies the waiters: data first. Without waiters, which is the rule,
    /// nothing is published, because every worker would receive it. If the flight is gone, its waiters are unknown, and
    /// its end is published in any case.
    ///
    /// KEYS 1 entry · 2 flight · 3 temporary · 4 negative
    /// ARGV 1 owner · 2 token · 3 keep: `0` nothing, `1` the chunks given here, `2` those in the temporary key, `3`
    ///      those of the existing entry · 4 ms until Redis deletes the entry · 5 ms for which it is fresh · 6 ms for
    ///      which it may be served while it is revalidated, including the fresh ones · 7 m · 8 channel · 9 message ·
    ///      10 number of chunks · 11… the chunks, or for `3` the checksum that the entry's m must have
    /// Returns `ok`, or `stale`: a newer flight has begun or ended, and nothing but the temporary key has changed; or
    ///      `torn`: chunks of the temporary key are missing, or the entry whose chunks were to be kept is gone, so that
    ///      the flight has ended without an entry of its own.
    /// After keeping nothing, the entry of an earlier flight is deleted too, and for ten seconds a mark lets the
    /// waiters lead in parallel instead of one after the other. The deletion is published as `-` and the message, for
    /// near caches that hold a copy.
    static let finish = RedisScript(
        name: "finishFlight",
        source: """
            #!lua
            local f = redis.call('HMGET', KEYS[2], 'o', 't', 'w')
            local stored = redis.call('HGET', KEYS[1], 't')
            if (f[1] and (f[1] ~= ARGV[1] or f[2] ~= ARGV[2])) or
               (stored and tonumber(stored) >= tonumber(ARGV[2])) then
              redis.call('UNLINK', KEYS[3])
              return 'stale'
            end
            local answer, keep = 'ok', ARGV[3]
            if keep == '2' and redis.call('HLEN', KEYS[3]) ~= tonumber(ARGV[10]) then
              redis.call('UNLINK', KEYS[3])
              answer = 'torn'
            elseif keep == '3' and not string.find(redis.call('HGET', KEYS[1], 'm') or '', ARGV[11], 1, true) then
              answer = 'torn'
            else
              if keep ~= '3' then redis.call('UNLINK', KEYS[1]) end
              if keep == '2' then redis.call('RENAME', KEYS[3], KEYS[1]) end
              if keep == '1' then
                for i = 11, #ARGV do redis.call('HSET', KEYS[1], i - 11, ARGV[i]) end
              end
              if keep ~= '0' then
                local t = redis.call('TIME')
                local now = t[1] * 1000 + math.floor(t[2] / 1000)
                redis.call('HSET', KEYS[1], 'm', ARGV[7], 't', ARGV[2], 'x', string.format('%.0f', now + ARGV[5]),
                  's', string.format('%.0f', now + ARGV[6]))
                redis.call('PEXPIRE', KEYS[1], ARGV[4])
              end
            end
            redis.call('UNLINK', KEYS[2], KEYS[4])
            if keep == '0' then
              redis.call('SET', KEYS[4], 'U', 'PX', 10000)
              redis.call('PUBLISH', ARGV[8], '-' .. ARGV[9])
            end
            if f[3] or not f[1] then redis.call('PUBLISH', ARGV[8], ARGV[9]) end
            return answer
            """
    )

    /// Deletes a damaged entry, unless another has replaced it since it was read.
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

    /// Ends a flight without an entry, remembers the failure for a moment, and notifies the waiters, if there are any.
    ///
    /// KEYS 1 flight · 2 negative · 3 entry
    /// ARGV 1 owner · 2 token · 3 ms to remember; 0 for the waiters alone, which have ten seconds; -1 leaves a
    ///      remembered failure as it is · 4 error, a JSON object with at least one field · 5 channel · 6 message ·
    ///      7 `1` if the entry of an earlier flight is no longer valid: it is deleted, and the deletion is published ·
    ///      8 `b` if the failure answers every request while it is remembered, else `k`
    /// Returns `ok`, or `stale` if the owner no longer holds the flight.
    /// After: the JSON has the fields `at` (ms), `token` and `kind` (ARGV 8, or `w` for the waiters alone) in front.
    static let fail = RedisScript(
        name: "failFlight",
        source: """
            #!lua flags=allow-oom
            local f = redis.call('HMGET', KEYS[1], 'o', 't', 'w')
            if f[1] ~= ARGV[1] or f[2] ~= ARGV[2] then return 'stale' end
            local ms, kind = tonumber(ARGV[3]), ARGV[8]
            if ms == 0 then
              redis.call('UNLINK', KEYS[2])
              if f[3] then ms, kind = 10000, 'w' end
            end
            if ms > 0 then
              local t = redis.call('TIME')
              local at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
              redis.call('SET', KEYS[2], '{"at":' .. at .. ',"token":' .. ARGV[2] .. ',"kind":"' .. kind .. '",' ..
                         string.sub(ARGV[4], 2), 'PX', ms)
            end
            if ARGV[7] == '1' then
              redis.call('UNLINK', KEYS[3])
              redis.call('PUBLISH', ARGV[5], '-' .. ARGV[6])
            end
            redis.call('UNLINK', KEYS[1])
            if f[3] then redis.call('PUBLISH', ARGV[5], ARGV[6]) end
            return 'ok'
            """
    )

    /// Replaces the remembered failure of a key, without a flight.
    ///
    /// KEYS 1 negative
    /// ARGV 1 ms to remember, 0 to forget · 2 error, as for `fail` · 3 `b` or `k`, as for `fail`
    /// Returns 1 if a failure is remembered now, else 0.
    static let remember = RedisScript(
        name: "rememberFailure",
        source: """
            #!lua flags=allow-oom
            if tonumber(ARGV[1]) <= 0 then
              redis.call('UNLINK', KEYS[1])
              return 0
            end
            local t = redis.call('TIME')
            local at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
            redis.call('SET', KEYS[1], '{"at":' .. at .. ',"token":0,"kind":"' .. ARGV[3] .. '",' ..
                       string.sub(ARGV[2], 2), 'PX', ARGV[1])
            return 1
            """
    )
}
