-- batchPrelude: functions that count the ended jobs of a batch and keep its outcomes. It uses `queuePrelude` and
-- `outcomePrelude`, and reads no KEYS and ARGV of its own.

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

-- The name of the batch that has this key: a queue's name has no brace.
local function nameOfBatch(batchKey)
  return string.match(batchKey, '}[^}]-batch:(.*)$')
end

-- Marks a batch as finished if it is complete: it is closed, everything that its submitter pushed was admitted (`own`),
-- at least as many jobs as were announced (`expected`), and all of its jobs (`total`, which includes those of the
-- public intake) have ended. Returns 1 once, and then deletes `known`.
local function closeIfComplete(batchKey, knownKey, endedKey)
  local v = redis.call('HMGET', batchKey, 'closed', 'submitted', 'own', 'total', 'done', 'failed', 'cancelled',
                       'deduplicated', 'expected')
  local ended, total = 0, tonumber(v[4]) or 0
  for i = 5, 8 do ended = ended + (tonumber(v[i]) or 0) end
  if v[1] == '1' and (tonumber(v[3]) or 0) >= (tonumber(v[2]) or 0) and ended >= total and
     total >= (tonumber(v[9]) or 0) then
    redis.call('UNLINK', knownKey)
    local t = now()
    if redis.call('HSETNX', batchKey, 'finished', t) == 1 then
      redis.call('ZADD', endedKey, t, nameOfBatch(batchKey))
      return 1
    end
  end
  return 0
end

-- Appends outcomes for the duplicates that wait for these jobs, without the outputs if they are long, and records in
-- `known` how the jobs ended, for later duplicates. It records a whole outcome only if the batch keeps a ledger,
-- `known` has at most 50,000 entries and the outcome at most 2 KiB; otherwise only that the job has ended.
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
      local duplicate = asDuplicate(outcomes[i])
      -- At most 2 KiB for each: a call may end 128 jobs with eight duplicates.
      if #duplicate > 2048 then
        duplicate = string.gsub(duplicate, '^(.*),"outputs":%[.*%],"seconds":', '%1,"outputs":[],"seconds":')
      end
      for _ = 1, waiting do outcomes[#outcomes + 1] = duplicate end
      duplicates = duplicates + waiting
    end
  end
  if duplicates > 0 then counts.deduplicated = (counts.deduplicated or 0) + duplicates end
end

-- The outcomes that a batch keeps: their number, their bytes, and the bytes that are noted. The noted ones are wrong if
-- a client has popped outcomes with a command of its own; the length of the list shows that.
local function storedOutcomes(batchKey, resultsKey)
  local length = redis.call('LLEN', resultsKey)
  local count, noted = string.match(redis.call('HGET', batchKey, 'stored') or '', '^(%d+):(%d+)$')
  count, noted = tonumber(count) or 0, tonumber(noted) or 0
  if length == 0 then return 0, 0, noted end
  return length, count > length and math.floor(noted * length / count) or noted, noted
end

-- Notes how many outcomes and bytes a batch keeps, and adds the difference to the sum of all batches.
local function noteStored(statKey, batchKey, count, bytes, noted)
  redis.call('HSET', batchKey, 'stored', string.format('%d:%.0f', count, bytes))
  addToGauge(statKey, 'outcome_bytes', bytes - noted)
end

-- Appends outcomes to the ledger of a batch, numbered without a gap: `outcomes` is the number of the last. Each differs
-- from the outcome that had its number before Redis returned to an earlier state: if no worker needed a time of its own
-- for the job, by its field `endedAt`, the time of this call. Beyond 1,000,000 outcomes or 1 GiB that no reader has
-- received, or beyond the limit that the leader has set for all batches together, outcomes are dropped and counted.
local function keepOutcomes(statKey, batchKey, resultsKey, outcomes)
  local length, bytes, noted = storedOutcomes(batchKey, resultsKey)
  local v = redis.call('HMGET', batchKey, 'outcomes', 'read')
  local limits = redis.call('HMGET', statKey, 'outcome_bytes', 'outcome_limit')
  local others = math.max((tonumber(limits[1]) or 0) - noted, 0)
  local limit = math.min(1073741824, (tonumber(limits[2]) or 1073741824) - others)
  local kept = {}
  local stamp = string.format(',"endedAt":%.3f', now() / 1000)
  for _, outcome in ipairs(outcomes) do
    -- The last one is the outcome's own: others may be in its labels.
    if string.match(outcome, '^.*"seconds":([^,}]*)') == '0' then
      outcome = string.gsub(outcome, '^(.*"seconds":0)', '%1' .. stamp)
    end
    if length + #kept < 1000000 and bytes + #outcome <= limit then
      kept[#kept + 1] = outcome
      bytes = bytes + #outcome
    end
  end
  if #kept < #outcomes then redis.call('HINCRBY', batchKey, 'results_dropped', #outcomes - #kept) end
  if #kept == 0 then return end
  callForAll('RPUSH', resultsKey, kept)
  local last = math.max(tonumber(v[1]) or 0, (tonumber(v[2]) or 0) + length) + #kept
  redis.call('HSET', batchKey, 'outcomes', string.format('%.0f', last))
  noteStored(statKey, batchKey, length + #kept, bytes, noted)
end

-- Adds `counts` to the batch's counters, closes the batch if it is complete, and appends the outcomes to the ledger if
-- the batch keeps one. The ledger comes last, so that no completion is lost to a damaged ledger. Duplicates that wait
-- for these jobs end with them. With `refusals`, the outcomes belong to jobs that were never admitted, and no duplicate
-- waits for them.
local function finish(statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  if not refusals then endDuplicates(batchKey, knownKey, counts, outcomes) end
  for field, count in pairs(counts) do redis.call('HINCRBY', batchKey, field, count) end
  local closed = closeIfComplete(batchKey, knownKey, endedKey)
  if redis.call('HGET', batchKey, 'ledger') == '1' then keepOutcomes(statKey, batchKey, resultsKey, outcomes) end
  return closed
end

-- Calls `finish` for jobs that have already ended, and returns whether it succeeded. If not, it counts the outcomes in
-- `damaged_batch_ends`. Lua does not roll back: a batch that cannot count must not abort a script between two of its
-- writes.
local function finishOrFlagDamaged(statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  local ends = #outcomes
  if pcall(finish, statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals) then return true end
  redis.call('HINCRBY', statKey, 'damaged_batch_ends', ends)
  return false
end
