extension QueueScripts {
    /// Claims jobs. Each receives its lease and its attempt number in the same step, so that no job is without a lease
    /// in between.
    ///
    /// KEYS 1-3 ready: high, normal, bulk · 4 lease · 5 delay · 6 body · 7 meta · 8 control · 9 cancelled ·
    ///      10 workers · 11 workerinfo · 12 crashes · 13 suspects · 14 isolating · 15 places
    /// ARGV 1 worker · 2 lease, ms · 3 maximum number of jobs · 4 number of jobs that the worker holds · 5 its places ·
    ///      6 `1` to ignore its share · 7 suspects: `none`, `ask` (for a process of their own), `one` (among the
    ///      others), `only`
    /// Returns a list: number of jobs that were left to other workers · `1` if the caller is to start a process for
    /// suspects · then for each job {id, attempt, stalls, json, batch, `1` if the batch was cancelled, number of free
    /// attempts, deaths its source is suspected of, 0 or the bytes of a JSON that is too large to be handed out and is
    /// left out}.
    /// After: each of the jobs is in `lease` and in none of the ready lists, and its attempt number is one higher.
    /// Every later write about the job must carry that number: it is the fencing token. Delayed jobs that are due go
    /// first, the earliest in front, but only up to half of the requested number, so that fresh jobs get their turn.
    /// If fewer jobs are ready than places are free, a worker claims no more than its share by places, so that the last
    /// jobs of a batch do not all go to one worker. It asks again soon, and then ignores its share.
    /// A job whose source two processes have died of is in `suspects` and not in ready. After three deaths, the job is
    /// handed out like any other, so that the worker fails it. No two jobs of one suspected source run at a time. The
    /// caller is asked for a process only if a suspect waits whose source is not running: otherwise the process would
    /// find nothing to do.
    /// A reply has at most 1 MiB of JSON, or one job: a larger reply could not be read.
    static let claim = script(
        "claim",
        """
        local t, most, mode = now(), tonumber(ARGV[3]), ARGV[7]
        local reply, bytes, known = {0, 0}, 0, {}
        local due = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', t, 'LIMIT', 0, math.ceil(most / 2))
        for i = #due, 1, -1 do
          local id = due[i]
          redis.call('ZREM', KEYS[5], id)
          local m = redis.call('HGET', KEYS[7], id)
          if m then
            local _, _, _, p = meta(m)
            redis.call('RPUSH', KEYS[tonumber(p)], id)
          end
        end
        if redis.call('HGET', KEYS[8], 'paused') == '1' then return reply end
        local ends = string.format('%.0f', t + tonumber(ARGV[2]))
        local function read(ids)
          local metas = redis.call('HMGET', KEYS[7], unpack(ids))
          local jobs, digests = {}, {}
          for i, id in ipairs(ids) do
            local a, s, _, p, b, f, d = meta(metas[i] or '')
            if a and not known[id] then
              known[id] = true
              jobs[#jobs + 1] = {id = id, a = a + 1, s = s, p = p, b = b, f = f, d = d}
              if d ~= '' then digests[#digests + 1] = d end
            end
          end
          local counts = deaths(KEYS[12], digests, t)
          for _, j in ipairs(jobs) do
            j.deaths = counts[j.d] or 0
            j.gone = j.b ~= '' and redis.call('SISMEMBER', KEYS[9], j.b) == 1
            j.suspect = j.deaths == 2 and not j.gone
          end
          return jobs
        end
        local function fits(j)
          j.size = redis.call('HSTRLEN', KEYS[6], j.id)
          j.large = j.size > 16777216
          if j.large then return true end
          if bytes > 0 and bytes + j.size > 1048576 then return false end
          bytes = bytes + j.size
          return true
        end
        local function hand(jobs)
          local wanted, bodies = {}, {}
          for _, j in ipairs(jobs) do
            if j.size > 0 and not j.large then wanted[#wanted + 1] = j.id end
          end
          if #wanted > 0 then
            for i, body in ipairs(redis.call('HMGET', KEYS[6], unpack(wanted))) do bodies[wanted[i]] = body end
          end
          local claimed, leases = {}, {}
          for _, j in ipairs(jobs) do
            if bodies[j.id] or j.large then
              claimed[#claimed + 1] = j.id
              claimed[#claimed + 1] = pack(j.a, j.s, ARGV[1], j.p, j.b, j.f, j.d)
              leases[#leases + 1] = ends
              leases[#leases + 1] = j.id
              reply[#reply + 1] = {j.id, j.a, j.s, bodies[j.id] or '', j.b, j.gone and '1' or '0', j.f, j.deaths,
                                   j.large and j.size or 0}
            end
          end
          all('HSET', KEYS[7], claimed)
          all('ZADD', KEYS[4], leases)
        end
        -- Suspected sources of which a job waits and none runs.
        local open, isOpen = 0, {}
        local function mayRun(d)
          if isOpen[d] == nil then
            local expiry = redis.call('ZSCORE', KEYS[14], d)
            isOpen[d] = not expiry or tonumber(expiry) <= t
            if isOpen[d] then open = open + 1 end
          end
          return isOpen[d]
        end
        local ids = redis.call('RPOP', KEYS[13], 256)
        if ids then
          redis.call('ZREMRANGEBYSCORE', KEYS[14], '-inf', t)
          local kept = {}
          for _, j in ipairs(read(ids)) do
            if not j.suspect then
              known[j.id] = nil
              redis.call('RPUSH', KEYS[tonumber(j.p)], j.id)
            elseif not mayRun(j.d) then
              -- Behind the others: many jobs of one source must not hide those of another.
              redis.call('LPUSH', KEYS[13], j.id)
            elseif (mode == 'one' or mode == 'only') and #reply == 2 then
              fits(j)
              hand({j})
              redis.call('ZADD', KEYS[14], ends, j.d)
              isOpen[j.d], open = false, open - 1
              most = most - 1
            else
              kept[#kept + 1] = j.id
            end
          end
          for i = #kept, 1, -1 do redis.call('RPUSH', KEYS[13], kept[i]) end
        end
        if mode == 'only' then return reply end
        local function allPlaces()
          local n, w, at = string.match(redis.call('GET', KEYS[15]) or '', '^(%d+)|(%d+)|(%d+)$')
          local workers = redis.call('ZCARD', KEYS[10])
          if n and tonumber(w) == workers and t - tonumber(at) < 1000 and t >= tonumber(at) then return tonumber(n) end
          local total = 0
          local alive = redis.call('ZRANGEBYSCORE', KEYS[10], t - tonumber(ARGV[2]), '+inf', 'LIMIT', 0, 5000)
          for i = 1, #alive, 1000 do
            local infos = redis.call('HMGET', KEYS[11], unpack(alive, i, math.min(i + 999, #alive)))
            for _, info in ipairs(infos) do
              total = total + (tonumber(string.match(info or '', '"concurrency":(%d+)')) or 1)
            end
          end
          redis.call('SET', KEYS[15], string.format('%d|%d|%.0f', total, workers, t), 'PX', 60000)
          return total
        end
        local ready = redis.call('LLEN', KEYS[1]) + redis.call('LLEN', KEYS[2]) + redis.call('LLEN', KEYS[3])
        local want = math.max(math.min(most, ready), 0)
        if want > 0 and ARGV[6] ~= '1' then
          local places, leased = tonumber(ARGV[5]), redis.call('ZCARD', KEYS[4])
          local total = math.max(allPlaces(), places)
          if ready < total - leased then
            local share = math.max(math.ceil((ready + leased) * places / total) - tonumber(ARGV[4]), 0)
            reply[1] = math.max(want - share, 0)
            want = math.min(want, share)
          end
        end
        local isFull = false
        for k = 1, 3 do
          while want > 0 and not isFull do
            local popped = redis.call('RPOP', KEYS[k], math.min(want, 256))
            if not popped then break end
            local taken, back = {}, {}
            for _, j in ipairs(read(popped)) do
              if j.suspect then
                redis.call('LPUSH', KEYS[13], j.id)
                mayRun(j.d)
              elseif isFull or not fits(j) then
                isFull = true
                back[#back + 1] = j.id
              else
                taken[#taken + 1] = j
                want = want - 1
              end
            end
            for i = #back, 1, -1 do redis.call('RPUSH', KEYS[k], back[i]) end
            hand(taken)
          end
        end
        if mode == 'ask' and open > 0 then
          local me, starting = 'w:' .. ARGV[1], 0
          redis.call('ZREMRANGEBYSCORE', KEYS[14], '-inf', t)
          redis.call('ZREM', KEYS[14], me)
          for _, name in ipairs(redis.call('ZRANGE', KEYS[14], 0, 999)) do
            if string.sub(name, 1, 2) == 'w:' then starting = starting + 1 end
          end
          if open > starting then
            redis.call('ZADD', KEYS[14], t + 5000, me)
            reply[2] = 1
          end
        end
        return reply
        """
    )

    /// Renews a worker's leases; also serves as its heartbeat.
    ///
    /// KEYS 1 lease · 2 meta · 3 workers · 4 workerinfo · 5 cancelled · 6 crashes · 7 isolating
    /// ARGV 1 worker · 2 lease, ms · 3 number of running jobs · 4 description of the worker, JSON · 5… pairs of id and
    ///      attempt
    /// Returns {{ids that are no longer the worker's}, {ids whose batch was cancelled}, {ids whose source three
    /// processes have died of}}.
    /// After: each lease that is still the worker's, by its attempt number, ends one lease time from now, and a
    /// suspected source that is running stays marked as running for as long.
    static let renew = script(
        "renew",
        """
        local t = now()
        local lost, gone, poisoned, digests, ids = {}, {}, {}, {}, {}
        for i = 5, #ARGV, 2 do
          local mine = false
          local m = redis.call('HGET', KEYS[2], ARGV[i])
          if m then
            local a, s, w, p, b, _, d = meta(m)
            if a == tonumber(ARGV[i + 1]) and w == ARGV[1] and redis.call('ZSCORE', KEYS[1], ARGV[i]) then
              redis.call('ZADD', KEYS[1], 'XX', 'GT', t + tonumber(ARGV[2]), ARGV[i])
              mine = true
              if d ~= '' then
                digests[#digests + 1] = d
                ids[#ids + 1] = ARGV[i]
              end
              if b ~= '' and redis.call('SISMEMBER', KEYS[5], b) == 1 then gone[#gone + 1] = ARGV[i] end
            end
          end
          if not mine then lost[#lost + 1] = ARGV[i] end
        end
        local counts = deaths(KEYS[6], digests, t)
        for i, d in ipairs(digests) do
          if (counts[d] or 0) >= 3 then
            poisoned[#poisoned + 1] = ids[i]
          elseif counts[d] == 2 then
            redis.call('ZADD', KEYS[7], 'XX', 'GT', t + tonumber(ARGV[2]), d)
          end
        end
        redis.call('ZADD', KEYS[3], t, ARGV[1])
        redis.call('HSET', KEYS[4], ARGV[1], ARGV[3] .. ' ' .. ARGV[4])
        return {lost, gone, poisoned}
        """
    )

    /// Releases jobs that were not started or will not be finished. The attempt does not count.
    ///
    /// KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 workers · 8 workerinfo · 9 isolating
    /// ARGV 1 worker · 2 `1` if the worker leaves · 3… pairs of id and attempt
    /// Returns how many were released. After: they are the next to be claimed.
    static let release = script(
        "release",
        """
        local given = 0
        for i = 3, #ARGV, 2 do
          local m = redis.call('HGET', KEYS[2], ARGV[i])
          if m then
            local a, s, w, p, b, f, d = meta(m)
            if a == tonumber(ARGV[i + 1]) and w == ARGV[1] and redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
              redis.call('HSET', KEYS[2], ARGV[i], pack(a, s, '', p, b, f + 1, d))
              if d ~= '' then redis.call('ZREM', KEYS[9], d) end
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
}
