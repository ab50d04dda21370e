internal import MegatonRedis

/// Lua scripts that change jobs and batches, grouped by stage. Nothing else changes them, except a client's `LPUSH` to
/// an intake. The doc comment of each script is its contract.
///
/// Every script names all keys that it touches, takes the time from Redis, and does a bounded amount of work. Scripts
/// that work the queue off carry `allow-oom`: when Redis is out of memory, jobs can still finish while no new work gets
/// in.
enum QueueScripts {
    /// Lua functions that several scripts share, prepended to the source of each script.
    ///
    /// - `now()`: milliseconds of Redis' clock.
    /// - `meta(text)`: attempt, stalls, worker, priority, batch, free attempts, source digest; `pack` is its inverse.
    ///   The attempt number only grows, as it is the fencing token. Free attempts do not count against the job's limit.
    /// - `deaths(crashes, digests, t)`: for each given source that is in `crashes`, the number of process deaths it is
    ///   suspected of.
    /// - `close(batch, seen)`: marks a batch as finished if it is complete: it is closed, everything its submitter
    ///   pushed was admitted (`own`), and all of its jobs (`total`, which includes those of the public intake) have
    ///   ended. Returns 1 once, and then deletes `seen`.
    /// - `finish(batch, results, seen, counts, outcomes, refusals)`: adds `counts` to the batch's counters, closes the
    ///   batch, and appends the outcomes to the ledger if the batch keeps one. The ledger comes last, so that no
    ///   completion is lost to a damaged ledger. Duplicates that wait for these jobs end with them. With `refusals`,
    ///   the outcomes belong to jobs that were never admitted, and no duplicate waits for them.
    /// - `tell(stat, batch, results, seen, counts, outcomes, refusals)`: calls `finish` for jobs that have already
    ///   ended, and returns whether it succeeded. If not, it counts the outcomes in `damaged_batch_ends`. Lua does not
    ///   roll back: a batch that cannot count must not abort a script between two of its writes.
    /// - `sound(batch, seen)`: whether a batch can count: its key does not exist yet, or is a hash whose counters are
    ///   numbers far from overflow. Scripts check this before their first write.
    /// - `named(key)`: the id of a job as its submitter knows it; see `JobKey`.
    /// - `refused(key, json, status, code, message, labels)`: the outcome of a job that is not admitted, in the form
    ///   that a worker writes. The labels are JSON; nil or empty means none. The outcome of an `id_conflict` includes
    ///   the job, on one line, if the job has at most 16 KiB (`JobOutcome.maximumJobSize`).
    /// - `again(outcome)`: the same outcome for a duplicate of that job.
    /// - `answer(batch, seen, counts, outcomes)`: appends outcomes for the duplicates that wait for these jobs, and
    ///   records in `seen` how the jobs ended, for later duplicates. It records a whole outcome only if the batch keeps
    ///   a ledger, `seen` has at most 50,000 entries and the outcome at most 2 KiB; otherwise only that the job has
    ///   ended.
    /// - `bury(dead, info, id, json)`: adds a dead letter; if there are more than 100,000, the oldest is deleted.
    /// - `all(command, key, values)`: runs one command for many values, in pieces that fit on Lua's stack. A call from
    ///   Lua costs more than most of the work that it starts.
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
