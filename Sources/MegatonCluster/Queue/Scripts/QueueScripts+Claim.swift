extension QueueScripts {
    /// Takes jobs, each with its lease and its attempt number: there is no moment between.
    ///
    /// KEYS 1-3 ready: high, normal, bulk · 4 lease · 5 delay · 6 body · 7 meta · 8 control · 9 cancelled · 10 workers
    /// ARGV 1 worker · 2 lease, ms · 3 how many at the most · 4 how many the worker has in hand
    /// Returns a list of {id, attempt, stalls, json, batch, `1` if the batch was cancelled, how many attempts were free}.
    /// After: each of them is in `lease` and in none of the ready lists, its attempt is one more, and every later write
    /// about it must carry that number: it is the fence. Jobs that are due again go first, the earliest in front,
    /// but not more of them than half of what is asked for, so that fresh ones get their turn.
    /// A worker has no more than its share of what is ready and running, so that the last jobs of a batch are not all in
    /// one worker's hands while the others have nothing to do. Workers that have been silent for a lease do not count.
    static let claim = script(
        "claim",
        """
        local t = now()
        local due = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', t, 'LIMIT', 0, math.ceil(tonumber(ARGV[3]) / 2))
        for i = #due, 1, -1 do
          local id = due[i]
          redis.call('ZREM', KEYS[5], id)
          local m = redis.call('HGET', KEYS[7], id)
          if m then
            local _, _, _, p = meta(m)
            redis.call('RPUSH', KEYS[tonumber(p)], id)
          end
        end
        local taken = {}
        local ready = redis.call('LLEN', KEYS[1]) + redis.call('LLEN', KEYS[2]) + redis.call('LLEN', KEYS[3])
        if ready == 0 or redis.call('HGET', KEYS[8], 'paused') == '1' then return taken end
        local alive = math.max(1, redis.call('ZCOUNT', KEYS[10], t - tonumber(ARGV[2]), '+inf'))
        local ends = string.format('%.0f', t + tonumber(ARGV[2]))
        local share = math.ceil((ready + redis.call('ZCARD', KEYS[4])) / alive) - tonumber(ARGV[4])
        local want = math.min(tonumber(ARGV[3]), math.max(share, 0))
        for k = 1, 3 do
          while want > 0 do
            local ids = redis.call('RPOP', KEYS[k], math.min(want, 256))
            if not ids then break end
            local bodies = redis.call('HMGET', KEYS[6], unpack(ids))
            local metas = redis.call('HMGET', KEYS[7], unpack(ids))
            local claimed, leases, known = {}, {}, {}
            for i, id in ipairs(ids) do
              if bodies[i] and metas[i] and not known[id] then
                known[id] = true
                local a, s, _, p, b, f = meta(metas[i])
                claimed[#claimed + 1] = id
                claimed[#claimed + 1] = pack(a + 1, s, ARGV[1], p, b, f)
                leases[#leases + 1] = ends
                leases[#leases + 1] = id
                local gone = '0'
                if b ~= '' and redis.call('SISMEMBER', KEYS[9], b) == 1 then gone = '1' end
                taken[#taken + 1] = {id, a + 1, s, bodies[i], b, gone, f}
                want = want - 1
              end
            end
            all('HSET', KEYS[7], claimed)
            all('ZADD', KEYS[4], leases)
          end
        end
        return taken
        """
    )

    /// Prolongs a worker's leases, and is its sign of life.
    ///
    /// KEYS 1 lease · 2 meta · 3 workers · 4 workerinfo · 5 cancelled
    /// ARGV 1 worker · 2 lease, ms · 3 running · 4 about the worker, JSON · 5… pairs of id and attempt
    /// Returns {{ids that are no longer the worker's}, {ids whose batch was cancelled}}.
    /// After: each lease that is still the worker's, by its attempt, ends that much later than now.
    static let renew = script(
        "renew",
        """
        local t = now()
        local lost, gone = {}, {}
        for i = 5, #ARGV, 2 do
          local mine = false
          local m = redis.call('HGET', KEYS[2], ARGV[i])
          if m then
            local a, s, w, p, b = meta(m)
            if a == tonumber(ARGV[i + 1]) and w == ARGV[1] and redis.call('ZSCORE', KEYS[1], ARGV[i]) then
              redis.call('ZADD', KEYS[1], 'XX', 'GT', t + tonumber(ARGV[2]), ARGV[i])
              mine = true
              if b ~= '' and redis.call('SISMEMBER', KEYS[5], b) == 1 then gone[#gone + 1] = ARGV[i] end
            end
          end
          if not mine then lost[#lost + 1] = ARGV[i] end
        end
        redis.call('ZADD', KEYS[3], t, ARGV[1])
        redis.call('HSET', KEYS[4], ARGV[1], ARGV[3] .. ' ' .. ARGV[4])
        return {lost, gone}
        """
    )

    /// Gives jobs back that were not begun or will not be finished: the attempt does not count.
    ///
    /// KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 workers · 8 workerinfo
    /// ARGV 1 worker · 2 `1`: the worker goes · 3… pairs of id and attempt
    /// Returns how many were given back. After: they are the next to be claimed.
    static let release = script(
        "release",
        """
        local given = 0
        for i = 3, #ARGV, 2 do
          local m = redis.call('HGET', KEYS[2], ARGV[i])
          if m then
            local a, s, w, p, b, f = meta(m)
            if a == tonumber(ARGV[i + 1]) and w == ARGV[1] and redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
              redis.call('HSET', KEYS[2], ARGV[i], pack(a, s, '', p, b, f + 1))
              redis.call('RPUSH', KEYS[2 + tonumber(p)], ARGV[i])
              redis.call('LPUSH', KEYS[6], '1')
              given = given + 1
            end
          end
        end
        if given > 0 then redis.call('LTRIM', KEYS[6], 0, 255) end
        if ARGV[2] == '1' then
          redis.call('ZREM', KEYS[7], ARGV[1])
          redis.call('HDEL', KEYS[8], ARGV[1])
        end
        return given
        """
    )

    /// Makes jobs ready again whose lease has run out, and forgets workers that have been silent for long.
    ///
    /// KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 sweepgate · 8 stat · 9 workers · 10 workerinfo
    /// ARGV 1 how many at the most · 2 gate, ms · 3 a worker's silence, ms · 4 `1`: whoever has swept before
    /// Returns how many were swept, -1 where somebody else swept a moment ago.
    /// After: each has one stall more and goes first. Whoever claims one with too many stalls buries it: its batch is
    /// known there.
    static let sweep = script(
        "sweep",
        """
        if ARGV[4] == '1' then
          redis.call('SET', KEYS[7], '1', 'PX', ARGV[2])
        elseif not redis.call('SET', KEYS[7], '1', 'NX', 'PX', ARGV[2]) then
          return -1
        end
        local t = now()
        local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t, 'LIMIT', 0, tonumber(ARGV[1]))
        for _, id in ipairs(ids) do
          redis.call('ZREM', KEYS[1], id)
          local m = redis.call('HGET', KEYS[2], id)
          if m then
            local a, s, _, p, b, f = meta(m)
            redis.call('HSET', KEYS[2], id, pack(a, s + 1, '', p, b, f))
            redis.call('RPUSH', KEYS[2 + tonumber(p)], id)
            redis.call('LPUSH', KEYS[6], '1')
          end
        end
        if #ids > 0 then
          redis.call('LTRIM', KEYS[6], 0, 255)
          redis.call('HINCRBY', KEYS[8], 'stalled', #ids)
        end
        local silent = redis.call('ZRANGEBYSCORE', KEYS[9], '-inf', t - tonumber(ARGV[3]), 'LIMIT', 0, 1000)
        for _, worker in ipairs(silent) do
          redis.call('ZREM', KEYS[9], worker)
          redis.call('HDEL', KEYS[10], worker)
        end
        return #ids
        """
    )
}
