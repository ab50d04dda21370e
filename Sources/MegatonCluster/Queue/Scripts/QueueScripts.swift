internal import MegatonRedis

/// The scripts by which alone a queue changes, by stages. The contract of each stands above it.
///
/// All of them name every key they touch, take the time from Redis, and do a bounded amount of work. Those that drain
/// carry `allow-oom`: a full queue can be worked off while nothing new gets in.
enum QueueScripts {
    /// What several scripts share, in front of their text.
    ///
    /// - `now()`: ms of Redis' clock.
    /// - `meta(text)`: attempt, stalls, worker, priority, batch, free, digest of the source; `pack` is its inverse. The
    ///   attempt only grows, as it is the fence; those of them that do not count against the job's limit are free.
    /// - `deaths(crashes, digests, t)`: for each source that is in `crashes`, how many process deaths it is suspected of.
    /// - `close(batch, seen)`: marks a batch as finished that is: it is closed, all that its submitter pushed was
    ///   admitted (`own`), and all of its jobs (`total`, with those of the public list) have ended. Returns 1 once, and
    ///   forgets then what the batch has seen.
    /// - `finish(batch, results, seen, counts, outcomes)`: adds to a batch's counters what its jobs' ends add, closes, and
    ///   hands their outcomes to the ledger if the batch keeps one: last, so that a damaged ledger takes no end with it.
    ///   Duplicates that wait for these jobs end with them. With `refusals` the outcomes are not of jobs that were admitted, and
    ///   nothing waits for them.
    /// - `tell(stat, batch, results, seen, counts, outcomes, refusals)`: finishes, if the jobs have ended already. Returns whether
    ///   that was possible; else counts the outcomes in `damaged_batch_ends`. Lua does not roll back: a batch that cannot count
    ///   must not end a script between two of its writes.
    /// - `sound(batch, seen)`: whether a batch can count: it is not there yet, or a hash whose counters are numbers far from
    ///   their end. To be asked before the first write.
    /// - `named(key)`: the id of a job as its submitter knows it; see `JobKey`.
    /// - `refused(key, json, status, code, message, labels)`: the outcome of a job that is not admitted, as a worker would
    ///   write it. The labels are JSON, and none if they are nil or empty. That of an `id_conflict` holds the job, in one
    ///   line, if it has at most 16 KiB (`JobOutcome.maximumJobSize`).
    /// - `again(outcome)`: the same outcome for a duplicate of that job.
    /// - `answer(batch, seen, counts, outcomes)`: adds the outcomes of the duplicates that wait for these jobs, and notes how
    ///   the jobs ended for those to come: the outcomes of 50,000 jobs with at most 2 KiB each, of others that they ended.
    /// - `bury(dead, info, id, json)`: the oldest of 100,000 dead makes room.
    /// - `all(command, key, values)`: one command for many values, in pieces that Lua's stack has room for. A call out of
    ///   Lua costs more than most of what it does.
    static let prelude = """
        local function now()
          local t = redis.call('TIME')
          return t[1] * 1000 + math.floor(t[2] / 1000)
        end
        local function meta(text)
          local a, f, s, w, p, d, b = string.match(text, '^(%d+)%+?(%d*)|(%d+)|([^|]*)|([^|@]*)@?([^|]*)|(.*)$')
          return tonumber(a), tonumber(s), w, p, b, tonumber(f) or 0, d or ''
        end
        local function pack(a, s, w, p, b, f, d)
          if f > 0 then a = a .. '+' .. f end
          if d and d ~= '' then p = p .. '@' .. d end
          return a .. '|' .. s .. '|' .. w .. '|' .. p .. '|' .. b
        end
        local function close(batch, seen)
          local v = redis.call('HMGET', batch, 'closed', 'submitted', 'own', 'total', 'done', 'failed', 'cancelled',
                               'deduplicated')
          local ended = 0
          for i = 5, 8 do ended = ended + (tonumber(v[i]) or 0) end
          if v[1] == '1' and (tonumber(v[3]) or 0) >= (tonumber(v[2]) or 0) and ended >= (tonumber(v[4]) or 0) then
            redis.call('UNLINK', seen)
            return redis.call('HSETNX', batch, 'finished', now())
          end
          return 0
        end
        local function named(key)
          return string.match(key, '^[^/]*/([^/]*)') or key
        end
        local function refused(key, json, status, code, message, labels)
          local read, job = pcall(cjson.decode, json)
          local source = read and type(job) == 'table' and type(job.source) == 'string' and job.source or ''
          if #source > 2048 then source = string.gsub(string.sub(source, 1, 2048), '[\\192-\\255][\\128-\\191]*$', '') end
          local noted = labels and labels ~= '' and ',"labels":' .. labels or ''
          local whole = ''
          if code == 'id_conflict' and #json <= 16384 then
            whole = ',"job":' .. string.gsub(json, '[\\r\\n]', ' ')
          end
          return '{"attempts":0,"error":{"code":"' .. code .. '","message":' .. cjson.encode(message) ..
            ',"retryable":false},"id":' .. cjson.encode(named(key)) .. whole .. noted ..
            ',"outputs":[],"seconds":0,"source":' ..
            cjson.encode(source) .. ',"status":"' .. status .. '"}'
        end
        local function again(outcome)
          return (string.gsub(outcome, '^(.*)"status":"%a+"', '%1"status":"deduplicated"'))
        end
        local function answer(batch, seen, counts, outcomes)
          if redis.call('TYPE', seen).ok ~= 'hash' then return end
          local keeps = redis.call('HGET', batch, 'ledger') == '1' and redis.call('HLEN', seen) <= 50000
          local duplicates = 0
          for i = 1, #outcomes do
            local id = string.match(outcomes[i], '"id":"([^"]*)"')
            local known = id and redis.call('HGET', seen, 'i' .. id)
            local content, state = string.match(known or '', '^(%x+):(.*)$')
            local waiting = tonumber(state)
            if waiting then
              local ended = keeps and #outcomes[i] <= 2048 and outcomes[i] or '-'
              redis.call('HSET', seen, 'i' .. id, content .. ':' .. ended)
              for _ = 1, waiting do outcomes[#outcomes + 1] = again(outcomes[i]) end
              duplicates = duplicates + waiting
            end
          end
          if duplicates > 0 then counts.deduplicated = (counts.deduplicated or 0) + duplicates end
        end
        local function bury(dead, info, id, json)
          redis.call('ZADD', dead, now(), id)
          redis.call('HSET', info, id, json)
          if redis.call('ZCARD', dead) > 100000 then
            local oldest = redis.call('ZPOPMIN', dead)
            redis.call('HDEL', info, oldest[1])
          end
        end
        local function all(command, key, values)
          local count = 0
          for i = 1, #values, 1000 do
            count = count + redis.call(command, key, unpack(values, i, math.min(i + 999, #values)))
          end
          return count
        end
        local function deaths(crashes, digests, t)
          local counts = {}
          if #digests == 0 or redis.call('EXISTS', crashes) == 0 then return counts end
          for i = 1, #digests, 1000 do
            local scores = redis.call('ZMSCORE', crashes, unpack(digests, i, math.min(i + 999, #digests)))
            for k, score in ipairs(scores) do
              local expiry = score and math.floor(tonumber(score) / 8)
              if expiry and expiry > t then counts[digests[i + k - 1]] = tonumber(score) - 8 * expiry end
            end
          end
          return counts
        end
        local function finish(batch, results, seen, counts, outcomes, refusals)
          if not refusals then answer(batch, seen, counts, outcomes) end
          for field, count in pairs(counts) do redis.call('HINCRBY', batch, field, count) end
          local closed = close(batch, seen)
          if redis.call('HGET', batch, 'ledger') == '1' then
            local room = math.max(1000000 - redis.call('LLEN', results), 0)
            if room < #outcomes then redis.call('HINCRBY', batch, 'results_dropped', #outcomes - room) end
            for i = #outcomes, room + 1, -1 do outcomes[i] = nil end
            all('RPUSH', results, outcomes)
          end
          return closed
        end
        local function tell(stat, batch, results, seen, counts, outcomes, refusals)
          -- Before, as the ledger takes no more than it has room for.
          local ends = #outcomes
          if pcall(finish, batch, results, seen, counts, outcomes, refusals) then return true end
          redis.call('HINCRBY', stat, 'damaged_batch_ends', ends)
          return false
        end
        local function sound(batch, seen)
          local kind, memory = redis.call('TYPE', batch).ok, redis.call('TYPE', seen).ok
          if memory ~= 'none' and memory ~= 'hash' then return false end
          if kind ~= 'hash' then return kind == 'none' end
          local counters = redis.call('HMGET', batch, 'total', 'own', 'done', 'failed', 'cancelled', 'deduplicated')
          for _, value in ipairs(counters) do
            -- As HINCRBY reads it, which takes no leading zero.
            if value and value ~= '0' and (#value > 15 or not string.match(value, '^%-?[1-9]%d*$')) then return false end
          end
          return true
        end

        """

    static func script(_ name: String, allowsOutOfMemory: Bool = true, _ body: String) -> RedisScript {
        let flags = allowsOutOfMemory ? " flags=allow-oom" : ""
        return RedisScript(name: name, source: "#!lua\(flags)\n" + prelude + body)
    }
}
