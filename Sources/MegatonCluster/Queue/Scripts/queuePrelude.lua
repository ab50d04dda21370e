-- queuePrelude: functions that the scripts of the queue share, prepended to the source of each. It reads no KEYS and
-- ARGV of its own, except in `batchKeys`.

-- Milliseconds of Redis' clock.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The parts of a job's meta: attempt, stalls, worker, priority, batch, free attempts, digest of its source; all nil if
-- it cannot be read, except the last two. The attempt number only grows, as it is the fencing token. Free attempts do
-- not count against the job's limit.
local function unpackMeta(text)
  local a, f, s, w, p, d, b = string.match(text, '^(%d+)%+?(%d*)|(%d+)|([^|]*)|([^|@]*)@?([^|]*)|(.*)$')
  return tonumber(a), tonumber(s), w, p, b, tonumber(f) or 0, d or ''
end

-- The inverse of `unpackMeta`.
local function packMeta(a, s, w, p, b, f, d)
  if f > 0 then a = a .. '+' .. f end
  if d and d ~= '' then p = p .. '@' .. d end
  return a .. '|' .. s .. '|' .. w .. '|' .. p .. '|' .. b
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

-- The id of a job as its submitter knows it; see `JobKey`.
local function submittedId(key)
  return string.match(key, '^[^/]*/([^/]*)') or key
end

-- The outcome of a job that is not admitted, in the form that a worker writes. The labels are JSON; nil or empty means
-- none. The outcome of an `id_conflict` includes the job, on one line, if the job has at most 16 KiB
-- (`JobOutcome.maximumJobSize`).
local function refusedOutcome(key, json, status, code, message, labels)
  local read, job = pcall(cjson.decode, json)
  local source = read and type(job) == 'table' and type(job.source) == 'string' and job.source or ''
  if #source > 2048 then source = string.gsub(string.sub(source, 1, 2048), '[\192-\255][\128-\191]*$', '') end
  local noted = labels and labels ~= '' and ',"labels":' .. labels or ''
  local whole = ''
  if code == 'id_conflict' and #json <= 16384 then
    whole = ',"job":' .. string.gsub(json, '[\r\n]', ' ')
  end
  return '{"attempts":0,"error":{"code":"' .. code .. '","message":' .. cjson.encode(message) ..
    ',"retryable":false},"id":' .. cjson.encode(submittedId(key)) .. whole .. noted ..
    ',"outputs":[],"seconds":0,"source":' ..
    cjson.encode(source) .. ',"status":"' .. status .. '"}'
end

-- The same outcome for a duplicate of that job.
local function asDuplicate(outcome)
  return (string.gsub(outcome, '^(.*)"status":"%a+"', '%1"status":"deduplicated"'))
end

-- Adds a dead letter; if there are more than 100,000, the oldest is deleted.
local function addDeadLetter(deadKey, deadInfoKey, id, json)
  redis.call('ZADD', deadKey, now(), id)
  redis.call('HSET', deadInfoKey, id, json)
  if redis.call('ZCARD', deadKey) > 100000 then
    local oldest = redis.call('ZPOPMIN', deadKey)
    redis.call('HDEL', deadInfoKey, oldest[1])
  end
end

-- Whether a batch can count: its key does not exist yet, or is a hash whose counters are numbers far from overflow.
-- Scripts check this before their first write.
local function isConsistent(batchKey, knownKey)
  local kind, knownKind = redis.call('TYPE', batchKey).ok, redis.call('TYPE', knownKey).ok
  if knownKind ~= 'none' and knownKind ~= 'hash' then return false end
  if kind ~= 'hash' then return kind == 'none' end
  local counters = redis.call('HMGET', batchKey, 'total', 'own', 'done', 'failed', 'cancelled', 'deduplicated')
  for _, value in ipairs(counters) do
    -- As HINCRBY reads it, which accepts no leading zero.
    if value and value ~= '0' and (#value > 15 or not string.match(value, '^%-?[1-9]%d*$')) then return false end
  end
  return true
end

-- Marks a batch as finished if it is complete: it is closed, everything that its submitter pushed was admitted (`own`),
-- and all of its jobs (`total`, which includes those of the public intake) have ended. Returns 1 once, and then deletes
-- `known`.
local function closeIfComplete(batchKey, knownKey)
  local v = redis.call('HMGET', batchKey, 'closed', 'submitted', 'own', 'total', 'done', 'failed', 'cancelled',
                       'deduplicated')
  local ended = 0
  for i = 5, 8 do ended = ended + (tonumber(v[i]) or 0) end
  if v[1] == '1' and (tonumber(v[3]) or 0) >= (tonumber(v[2]) or 0) and ended >= (tonumber(v[4]) or 0) then
    redis.call('UNLINK', knownKey)
    return redis.call('HSETNX', batchKey, 'finished', now())
  end
  return 0
end

-- Appends outcomes for the duplicates that wait for these jobs, and records in `known` how the jobs ended, for later
-- duplicates. It records a whole outcome only if the batch keeps a ledger, `known` has at most 50,000 entries and the
-- outcome at most 2 KiB; otherwise only that the job has ended.
local function endDuplicates(batchKey, knownKey, counts, outcomes)
  if redis.call('TYPE', knownKey).ok ~= 'hash' then return end
  local keeps = redis.call('HGET', batchKey, 'ledger') == '1' and redis.call('HLEN', knownKey) <= 50000
  local duplicates = 0
  for i = 1, #outcomes do
    local id = string.match(outcomes[i], '"id":"([^"]*)"')
    local known = id and redis.call('HGET', knownKey, 'i' .. id)
    local content, state = string.match(known or '', '^(%x+):(.*)$')
    local waiting = tonumber(state)
    if waiting then
      local ended = keeps and #outcomes[i] <= 2048 and outcomes[i] or '-'
      redis.call('HSET', knownKey, 'i' .. id, content .. ':' .. ended)
      for _ = 1, waiting do outcomes[#outcomes + 1] = asDuplicate(outcomes[i]) end
      duplicates = duplicates + waiting
    end
  end
  if duplicates > 0 then counts.deduplicated = (counts.deduplicated or 0) + duplicates end
end

-- Adds `counts` to the batch's counters, closes the batch if it is complete, and appends the outcomes to the ledger if
-- the batch keeps one. The ledger comes last, so that no completion is lost to a damaged ledger. Duplicates that wait
-- for these jobs end with them. With `refusals`, the outcomes belong to jobs that were never admitted, and no duplicate
-- waits for them.
local function finish(batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  if not refusals then endDuplicates(batchKey, knownKey, counts, outcomes) end
  for field, count in pairs(counts) do redis.call('HINCRBY', batchKey, field, count) end
  local closed = closeIfComplete(batchKey, knownKey)
  if redis.call('HGET', batchKey, 'ledger') == '1' then
    local room = math.max(1000000 - redis.call('LLEN', resultsKey), 0)
    if room < #outcomes then redis.call('HINCRBY', batchKey, 'results_dropped', #outcomes - room) end
    for i = #outcomes, room + 1, -1 do outcomes[i] = nil end
    callForAll('RPUSH', resultsKey, outcomes)
  end
  return closed
end

-- Calls `finish` for jobs that have already ended, and returns whether it succeeded. If not, it counts the outcomes in
-- `damaged_batch_ends`. Lua does not roll back: a batch that cannot count must not abort a script between two of its
-- writes.
local function finishOrFlagDamaged(statKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  -- Counted before, as `finish` deletes outcomes for which the ledger has no room.
  local ends = #outcomes
  if pcall(finish, batchKey, resultsKey, knownKey, counts, outcomes, refusals) then return true end
  redis.call('HINCRBY', statKey, 'damaged_batch_ends', ends)
  return false
end
