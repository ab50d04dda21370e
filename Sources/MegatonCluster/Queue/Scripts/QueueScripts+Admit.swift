extension QueueScripts {
    /// Takes jobs from the intakes into the leader's stage, where nobody else touches them.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 intakes · 6… intakes, the public one first
    /// ARGV 1 who · 2 epoch · 3 how many at the most · 4… the batch of each intake, `` for the public one
    /// Returns the stage as it is then, oldest first, each `<batch>\\0<json>`; or the error NOTLEADER.
    /// After: a job is in exactly one of intake and stage. Whatever the stage held already comes first, so that a
    /// leader which failed between `stage` and `admit` goes on where it was.
    /// A job of more than 1 MiB is cut, and marked by a first byte 1: it will be invalid. No more than 4 MiB are returned
    /// at once, so that nothing that was pushed can make the reply too large to be read.
    /// Intakes are asked in turn, so that none starves another; an own intake that is empty is forgotten.
    static let stage = script(
        "stage",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        local want = tonumber(ARGV[3]) - redis.call('LLEN', KEYS[3])
        local open = #KEYS - 5
        local share = math.max(1, math.floor(want / math.max(1, open)))
        local found = true
        while want > 0 and found do
          found = false
          for k = 6, #KEYS do
            for _ = 1, math.min(share, want) do
              local job = redis.call('RPOP', KEYS[k])
              if not job then break end
              if #job > 1048576 then job = '\\1' .. string.sub(job, 1, 1024) end
              redis.call('RPUSH', KEYS[3], ARGV[k - 2] .. '\\0' .. job)
              want = want - 1
              found = true
            end
          end
        end
        for k = 7, #KEYS do
          if redis.call('EXISTS', KEYS[k]) == 0 then redis.call('ZREM', KEYS[5], ARGV[k - 2]) end
        end
        local staged, bytes = {}, 0
        for i = 0, tonumber(ARGV[3]) - 1 do
          local job = redis.call('LINDEX', KEYS[3], i)
          if not job then break end
          bytes = bytes + #job
          if i > 0 and bytes > 4194304 then break end
          staged[#staged + 1] = job
        end
        if #staged > 0 then redis.call('SADD', KEYS[4], ARGV[2]) end
        return staged
        """
    )

    /// Puts what an earlier leader staged and never admitted back into the stage of this one.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 stage:<older>
    /// ARGV 1 who · 2 epoch · 3 the older epoch · 4 how many at the most
    /// Returns how many were moved; the older stage is forgotten once it is empty.
    static let replay = script(
        "replay",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        local moved = 0
        while moved < tonumber(ARGV[4]) and redis.call('LMOVE', KEYS[5], KEYS[3], 'LEFT', 'RIGHT') do
          moved = moved + 1
        end
        if moved > 0 then redis.call('SADD', KEYS[4], ARGV[2]) end
        if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('SREM', KEYS[4], ARGV[3]) end
        return moved
        """
    )

    /// Turns the first jobs of the stage into jobs that can be claimed, or into dead ones.
    ///
    /// KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 body · 5 meta · 6-8 ready: high, normal, bulk · 9 wake · 10 dead ·
    ///      11 deadinfo · 12 stat · 13 batches · 14 cancelled, then for each batch concerned: batch:<b>, results:<b>
    /// ARGV 1 who · 2 epoch · 3 wake tokens at the most · 4 number of batches · their names, then for each job six:
    ///      id · `1`-`3` its priority, or `x`: invalid · number of its batch, 0 for none · `1` if it came through its
    ///      batch's own intake · its JSON, or its `DeadJob` · its outcome if it is not admitted
    /// Returns {admitted, invalid, duplicates, cancelled}, or the error NOTLEADER.
    /// Before: the jobs are the first of the stage, in order. After: they are there no more, and each is in exactly one
    /// of ready, dead and ended; its batch's `total` counts it. An id that is alive already is a duplicate.
    static let admit = script(
        "admit",
        """
        if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
          return redis.error_reply('NOTLEADER somebody else leads')
        end
        local batches = tonumber(ARGV[4])
        local result = {0, 0, 0, 0}
        for i = 5 + batches, #ARGV, 6 do
          local id, kind, number, json, outcome = ARGV[i], ARGV[i+1], tonumber(ARGV[i+2]), ARGV[i+4], ARGV[i+5]
          if not redis.call('LPOP', KEYS[3]) then break end
          local name, batch, results = '', nil, nil
          if number > 0 then
            name = ARGV[4 + number]
            batch, results = KEYS[13 + 2 * number], KEYS[14 + 2 * number]
            redis.call('HINCRBY', batch, 'total', 1)
            if ARGV[i+3] == '1' then redis.call('HINCRBY', batch, 'own', 1) end
            if redis.call('ZADD', KEYS[13], 'NX', now(), name) == 1 then redis.call('HSETNX', batch, 'created', now()) end
          end
          if kind == 'x' then
            bury(KEYS[10], KEYS[11], id, json)
            redis.call('HINCRBY', KEYS[12], 'failed', 1)
            if batch then finish(batch, results, 'failed', outcome) end
            result[2] = result[2] + 1
          elseif batch and redis.call('SISMEMBER', KEYS[14], name) == 1 then
            redis.call('HINCRBY', KEYS[12], 'cancelled', 1)
            finish(batch, results, 'cancelled', outcome)
            result[4] = result[4] + 1
          elseif redis.call('HEXISTS', KEYS[4], id) == 1 then
            redis.call('HINCRBY', KEYS[12], 'deduplicated', 1)
            if batch then finish(batch, results, 'deduplicated', outcome) end
            result[3] = result[3] + 1
          else
            redis.call('HSET', KEYS[4], id, json)
            redis.call('HSET', KEYS[5], id, pack(0, 0, '', kind, name))
            redis.call('LPUSH', KEYS[5 + tonumber(kind)], id)
            if redis.call('ZREM', KEYS[10], id) == 1 then redis.call('HDEL', KEYS[11], id) end
            result[1] = result[1] + 1
          end
        end
        local tokens = math.min(result[1], tonumber(ARGV[3]))
        for _ = 1, tokens do redis.call('LPUSH', KEYS[9], '1') end
        if tokens > 0 then redis.call('LTRIM', KEYS[9], 0, tonumber(ARGV[3]) - 1) end
        return result
        """
    )
}
