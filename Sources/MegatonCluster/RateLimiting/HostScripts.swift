internal import MegatonRedis

/// Lua scripts of `HostRateLimiter`. A host's state is one field of the hash `rate`, ten numbers:
///
/// `tat` µs, when the next request is due by the rate (GCRA, the leaky bucket as a meter: ATM Forum TM 4.1, appendix I)
/// · `slot` µs, time up to which refused requests have been assigned a turn · `factor` 1/64 to 1, remaining fraction of
/// the limits · `blocked` ms, no request before that time · `failures` consecutive ones · `open` ms, circuit open until
/// then · `halved` ms, when the factor was last halved · `mean` µs, mean duration of a request · `path` of the last 429
/// or 503, as a number, 0 for none · `counts` ms, time until which one from another path concerns the whole host.
///
/// At most 10,000 hosts are remembered. A new one replaces a random one, which is then treated as new.
enum HostScripts {
    private static let prelude = """
        local t = redis.call('TIME')
        local us = t[1] * 1000000 + t[2]
        local ms = math.floor(us / 1000)
        local s = {}
        for number in string.gmatch(redis.call('HGET', KEYS[1], ARGV[1]) or '', '[^ ]+') do s[#s + 1] = tonumber(number) end
        local tat, slot, factor, blocked = s[1] or 0, s[2] or 0, s[3] or 1, s[4] or 0
        local failures, open, halved, mean = s[5] or 0, s[6] or 0, s[7] or 0, s[8] or 200000
        local path, counts = s[9] or 0, s[10] or 0
        local function keep()
          if #s == 0 and redis.call('HLEN', KEYS[1]) >= 10000 then
            redis.call('HDEL', KEYS[1], redis.call('HRANDFIELD', KEYS[1]))
          end
          redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f %.6f %.0f %d %.0f %.0f %.0f %.0f %.0f',
                     tat, slot, factor, blocked, failures, open, halved, mean, path, counts))
        end

        """

    /// Acquires a permit to fetch from a host.
    ///
    /// KEYS 1 rate · 2 fetching:<host>
    /// ARGV 1 host · 2 token · 3 requests per second, 0 for no limit · 4 burst · 5 concurrency · 6 failures that open
    ///      the circuit · 7 ms after which a permit expires
    /// Returns {`go`, `1` if the host is healthy and fewer than half of its slots are taken} · {`wait`, ms until its
    ///      turn, ms for which the host still asks for no requests} · {`open`, ms until the next probe, number of
    ///      consecutive circuit openings}.
    /// After `go`: the token is in `fetching`, and the rate has counted it. After `wait`: the turn is later than those
    /// of all requests refused before, but at most a minute ahead, and from there on anywhere in the second half of
    /// that minute, so that refused requests do not return together. Once its open time is over, a host with an open
    /// circuit gets one request at a time: the probe.
    static let enter = RedisScript(
        name: "enter",
        source: "#!lua flags=allow-oom\n" + prelude + """
            if open > ms then return {'open', open - ms, failures - tonumber(ARGV[6]) + 1} end
            redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ms)
            local busy = redis.call('ZCARD', KEYS[2])
            local limit = math.max(1, math.floor(tonumber(ARGV[5]) * factor))
            if failures >= tonumber(ARGV[6]) then limit = 1 end
            local rate = tonumber(ARGV[3]) * factor
            local interval = rate > 0 and 1000000 / rate or 0
            local early = rate > 0 and tat - tonumber(ARGV[4]) * interval > us
            if blocked > ms or busy >= limit or early then
              local from = math.max(slot, us, blocked * 1000)
              if early then from = math.max(from, tat - tonumber(ARGV[4]) * interval) end
              local last = math.max(us, blocked * 1000) + 60000000
              slot = from + math.max(interval, mean / limit, 1000)
              if slot > last then slot = last - us * 7919 % 30000000 end
              keep()
              return {'wait', math.ceil((slot - us) / 1000), math.max(0, blocked - ms)}
            end
            if rate > 0 then tat = math.max(tat, us) + interval end
            redis.call('ZADD', KEYS[2], ms + tonumber(ARGV[7]), ARGV[2])
            redis.call('PEXPIRE', KEYS[2], 4 * tonumber(ARGV[7]))
            keep()
            return {'go', failures == 0 and factor == 1 and 2 * busy < limit and 1 or 0}
            """
    )

    /// Renews a permit.
    ///
    /// KEYS 1 fetching:<host>
    /// ARGV 1 token · 2 ms after which it expires
    /// Returns 1, or 0 if it has expired: another request may hold its slot, and the permit is not restored.
    static let renew = RedisScript(
        name: "renewPass",
        source: """
            #!lua flags=allow-oom
            if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
            local t = redis.call('TIME')
            redis.call('PEXPIRE', KEYS[1], 4 * tonumber(ARGV[2]))
            redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[2]), ARGV[1])
            return 1
            """
    )

    /// Releases a permit and reports the outcome of its request.
    ///
    /// KEYS 1 rate · 2 fetching:<host>
    /// ARGV 1 host · 2 token · 3 `answered`, `earlier` (answered a while ago), `throttled`, `failed` or `none` · 4 ms
    ///      to send no request, for `throttled` · 5 failures that open the circuit · 6 ms for which it is open at first
    ///      · 7 maximum ms for which it is open · 8 µs that the request took, 0 if unknown · 9 requested path as a
    ///      number above 0; 0 if unknown
    /// Returns 1, or 0 if the permit had expired; its outcome counts all the same.
    /// After: a `throttled` counts for its path alone, unless one from another path came within its time, at least a
    /// minute. Then the limits of the host are halved, at most once a second, and it gets no request before the time it
    /// named; each `answered` restores a twentieth. The given number of consecutive failures opens the circuit, and
    /// each failed probe opens it for twice as long as before; failures of requests that were in progress when it
    /// opened do not count. An `earlier` ends a row of failures, but does not close the circuit, and restores nothing
    /// of the limits.
    static let leave = RedisScript(
        name: "leave",
        source: "#!lua flags=allow-oom\n" + prelude + """
            local known = redis.call('ZREM', KEYS[2], ARGV[2])
            if ARGV[3] == 'answered' then
              if open > 0 then slot = us end
              failures, open = 0, 0
              factor = math.min(1, factor + 0.05)
              if tonumber(ARGV[8]) > 0 then mean = mean + (tonumber(ARGV[8]) - mean) / 8 end
            elseif ARGV[3] == 'earlier' then
              if open == 0 then failures = 0 end
            elseif ARGV[3] == 'throttled' then
              local asked, pause = tonumber(ARGV[9]), tonumber(ARGV[4])
              if path ~= asked and counts > ms then
                failures, open = 0, 0
                blocked = math.max(blocked, ms + pause)
                if ms - halved >= 1000 then
                  factor = math.max(1 / 64, factor / 2)
                  halved = ms
                end
              end
              path, counts = asked, ms + math.max(pause, 60000)
            elseif ARGV[3] == 'failed' and open <= ms then
              failures = math.min(failures + 1, 1000)
              local over = failures - tonumber(ARGV[5])
              if over >= 0 then
                open = ms + math.min(tonumber(ARGV[7]), tonumber(ARGV[6]) * 2 ^ math.min(over, 20))
              end
            end
            keep()
            return known
            """
    )
}
