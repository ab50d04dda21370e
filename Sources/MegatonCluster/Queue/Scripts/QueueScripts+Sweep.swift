extension QueueScripts {
    /// Makes jobs ready again whose lease has run out or whose worker is known to be dead, counts process deaths for
    /// the sources that dead workers held, and forgets workers that have been silent for long.
    ///
    /// KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 sweepgate · 8 stat · 9 workers ·
    ///      10 workerinfo · 11 crashes · 12 suspects · 13 isolating
    /// ARGV 1 maximum number of jobs · 2 gate, ms · 3 silence after which a worker is forgotten, ms · 4 `1` to sweep
    ///      even if another process has just done so · 5 how long a source is suspected, ms · 6… names of workers whose
    ///      processes have ended
    /// Returns how many were swept, -1 if another process swept a moment ago.
    /// After: each swept job has one more stall and goes first, or waits in `suspects`.
    /// A worker is dead if it was named, or if one of its leases has run out and it has missed two renewals. All of its
    /// leases then end, so that everything it held is seen at one moment. A worker that still renews has lost the reply
    /// to a claim, and no source is suspected because of that. If all jobs of a dead worker name one source, that
    /// source has one more death. Otherwise any of the sources may be the cause: each counts one death, but no more
    /// than two, which makes it a suspect that runs by itself. The score in `crashes` is eight times the expiry time,
    /// plus the deaths, at most seven.
    static let sweep = script(
        "sweep",
        """
        if ARGV[4] == '1' then
          redis.call('SET', KEYS[7], '1', 'PX', ARGV[2])
        elseif not redis.call('SET', KEYS[7], '1', 'NX', 'PX', ARGV[2]) then
          return -1
        end
        local t, dead, anyDead = now(), {}, false
        for i = 6, #ARGV do
          dead[ARGV[i]], anyDead = true, true
          redis.call('ZREM', KEYS[9], ARGV[i])
          redis.call('HDEL', KEYS[10], ARGV[i])
        end
        local function isDead(worker)
          if worker == '' then return false end
          if dead[worker] == nil then
            local sign = redis.call('ZSCORE', KEYS[9], worker)
            local renewal = string.match(redis.call('HGET', KEYS[10], worker) or '', '"renewal":([%d.]+)')
            dead[worker] = not (sign and renewal and t - tonumber(sign) < 2000 * tonumber(renewal))
          end
          return dead[worker]
        end
        local swept, isSwept, lost = {}, {}, {}
        local function see(ids, areExpired)
          for i = 1, #ids, 1000 do
            local metas = redis.call('HMGET', KEYS[2], unpack(ids, i, math.min(i + 999, #ids)))
            for k, m in ipairs(metas) do
              local id = ids[i + k - 1]
              local a, s, w, p, b, f, d = meta(m or '')
              if areExpired and a and isDead(w) then anyDead = true end
              if not a then
                if areExpired then lost[#lost + 1] = id end
              elseif not isSwept[id] and (areExpired or dead[w]) then
                isSwept[id] = true
                swept[#swept + 1] = {id = id, a = a, s = s, w = w, p = p, b = b, f = f, d = d}
              end
            end
          end
        end
        see(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t, 'LIMIT', 0, tonumber(ARGV[1])), true)
        if anyDead then see(redis.call('ZRANGE', KEYS[1], 0, 19999), false) end
        local digests, hands = {}, {}
        for _, j in ipairs(swept) do
          if j.d ~= '' then
            digests[#digests + 1] = j.d
            if dead[j.w] then
              hands[j.w] = hands[j.w] or {count = 0, digests = {}}
              if not hands[j.w].digests[j.d] then hands[j.w].count = hands[j.w].count + 1 end
              hands[j.w].digests[j.d] = true
            end
          end
        end
        local counts = deaths(KEYS[11], digests, t)
        local function suspect(d, isAlone)
          local count = counts[d] or 0
          counts[d] = isAlone and math.min(count + 1, 7) or math.max(count, math.min(count + 1, 2))
          redis.call('ZADD', KEYS[11], string.format('%.0f', (t + tonumber(ARGV[5])) * 8 + counts[d]), d)
          redis.call('ZREM', KEYS[13], d)
        end
        for _, hand in pairs(hands) do
          for d in pairs(hand.digests) do suspect(d, hand.count == 1) end
        end
        all('ZREM', KEYS[1], lost)
        for _, j in ipairs(swept) do
          redis.call('ZREM', KEYS[1], j.id)
          redis.call('HSET', KEYS[2], j.id, pack(j.a, j.s + 1, '', j.p, j.b, j.f, j.d))
          if counts[j.d] == 2 then
            redis.call('LPUSH', KEYS[12], j.id)
          else
            redis.call('RPUSH', KEYS[2 + tonumber(j.p)], j.id)
          end
          redis.call('LPUSH', KEYS[6], '1')
        end
        if #swept > 0 then
          redis.call('LTRIM', KEYS[6], 0, 255)
          redis.call('HINCRBY', KEYS[8], 'stalled', #swept)
        end
        redis.call('ZREMRANGEBYSCORE', KEYS[11], '-inf', string.format('%.0f', t * 8))
        local sources = redis.call('ZCARD', KEYS[11])
        if sources > 100000 then redis.call('ZREMRANGEBYRANK', KEYS[11], 0, sources - 100001) end
        local silent = redis.call('ZRANGEBYSCORE', KEYS[9], '-inf', t - tonumber(ARGV[3]), 'LIMIT', 0, 1000)
        for _, worker in ipairs(silent) do
          redis.call('ZREM', KEYS[9], worker)
          redis.call('HDEL', KEYS[10], worker)
        end
        return #swept
        """
    )
}
