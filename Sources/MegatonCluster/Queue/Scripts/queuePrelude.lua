-- queuePrelude: functions about jobs and workers that the scripts of the queue share. The source of each script gets
-- those that it uses, which `LuaPrelude` finds. It reads no KEYS and ARGV of its own, except in `batchKeys`.

-- Milliseconds of Redis' clock.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The parts of a job's meta: attempt, stalls, worker, priority, batch, free attempts, digest of its source, its host;
-- all nil if it cannot be read, except the last three. The attempt number only grows, as it is the fencing token. Free
-- attempts do not count against the job's limit. The worker of a held job is its place in `holding` (see `hold`), and
-- that of a ready one the time since when it is ready (see `readyMark`). A host that ends with `!` has let the job
-- pass.
local function unpackMeta(text)
  local a, f, s, w, p, d, h, b =
    string.match(text, '^(%d+)%+?(%d*)|(%d+)|([^|]*)|([^|@]*)@?([^|@]*)@?([^|]*)|(.*)$')
  return tonumber(a), tonumber(s), w, p, b, tonumber(f) or 0, d or '', h or ''
end

-- The inverse of `unpackMeta`.
local function packMeta(a, s, w, p, b, f, d, h)
  if f > 0 then a = a .. '+' .. f end
  if d ~= '' or h ~= '' then p = p .. '@' .. d end
  if h ~= '' then p = p .. '@' .. h end
  return a .. '|' .. s .. '|' .. w .. '|' .. p .. '|' .. b
end

-- The worker of a job that becomes ready: the time, ms. A delayed job has none, also when it is due.
local function readyMark(t) return string.format('@%.0f', t) end

-- The time at which a job became ready, ms, from its worker; nil if that is not known.
local function readySince(w) return tonumber(string.match(w, '^@(%d+)$')) end

-- The host of a job as in its meta, without the mark that it has let the job pass.
local function hostName(h)
  return string.sub(h, -1) == '!' and string.sub(h, 1, -2) or h
end

-- The number of sources of a job, from the digest in its meta: that of a pack is `*` and the number.
local function sourceCount(d)
  return tonumber(string.match(d, '^%*(%d+)$')) or 1
end

-- Runs one command for many values, in pieces that fit on Lua's stack, and returns the sum of its replies. A call from
-- Lua costs more than most of the work that it starts.
local function callForAll(command, key, values)
  local count = 0
  for i = 1, #values, 1000 do
    count = count + redis.call(command, key, unpack(values, i, math.min(i + 999, #values)))
  end
  return count
end

-- Adds to a gauge in a hash. It is never below 0, so that a lost count cannot grow.
local function addToGauge(key, field, delta)
  if delta ~= 0 and redis.call('HINCRBY', key, field, delta) < 0 then redis.call('HSET', key, field, 0) end
end

-- The keys batch:<b>, results:<b> and known:<b> of a script's batch, if such triples follow its first `before` keys.
local function batchKeys(before, number)
  local last = before + 3 * number
  return KEYS[last - 2], KEYS[last - 1], KEYS[last]
end

-- The number of process deaths of which each of the sources is suspected, for those that are in `crashes`.
local function deathCounts(crashesKey, digests, t)
  local counts = {}
  if #digests == 0 or redis.call('EXISTS', crashesKey) == 0 then return counts end
  for i = 1, #digests, 1000 do
    local scores = redis.call('ZMSCORE', crashesKey, unpack(digests, i, math.min(i + 999, #digests)))
    for k, score in ipairs(scores) do
      local expiry = score and math.floor(tonumber(score) / 8)
      if expiry and expiry > t then counts[digests[i + k - 1]] = tonumber(score) - 8 * expiry end
    end
  end
  return counts
end

-- The places of all living workers: none of a process for suspects, and one of a worker whose description cannot be
-- read. They are counted at most once a second, and whenever the number of workers changes.
local function countPlaces(placesKey, workersKey, workerInfoKey, t, leaseTime)
  local n, w, at = string.match(redis.call('GET', placesKey) or '', '^(%d+)|(%d+)|(%d+)$')
  local workers = redis.call('ZCARD', workersKey)
  if n and tonumber(w) == workers and t - tonumber(at) < 1000 and t >= tonumber(at) then return tonumber(n) end
  local total = 0
  local alive = redis.call('ZRANGEBYSCORE', workersKey, t - leaseTime, '+inf', 'LIMIT', 0, 5000)
  for i = 1, #alive, 1000 do
    local infos = redis.call('HMGET', workerInfoKey, unpack(alive, i, math.min(i + 999, #alive)))
    for _, info in ipairs(infos) do
      total = total + (tonumber(string.match(info or '', '"concurrency":(%d+)')) or 1)
    end
  end
  redis.call('SET', placesKey, string.format('%d|%d|%.0f', total, workers, t), 'PX', 60000)
  return total
end

-- The part of the places that a shard may fill with jobs that it makes ready: each shard counts all places. The worker
-- that has renewed last stands for all: after `reshard`, one that died before it knows the earlier number of shards.
local function placesOfShard(places, workersKey, workerInfoKey)
  local worker = redis.call('ZRANGE', workersKey, -1, -1)[1]
  local info = worker and redis.call('HGET', workerInfoKey, worker) or ''
  return places / math.max(tonumber(string.match(info, '"shards":(%d+)')) or 1, 1)
end
