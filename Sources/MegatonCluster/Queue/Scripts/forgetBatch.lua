#!lua flags=allow-oom
-- forgetBatch: forgets a batch that has ended, or one that was never closed and has no unfinished job left.
--
-- KEYS 1 batch:<b> · 2 results:<b> · 3 known:<b> · 4 batches · 5 cancelled · 6 jobs:<b> · 7 ended · 8 stat ·
--      9 credit
-- ARGV 1 batch · 2 minimum ms since its end, or since its last job came if it has not ended
-- Returns 1 if it was forgotten, 0 if one of its jobs is left or it is younger.
-- After 0: its time in `ended` is such that it is looked at again when it is old enough, or in an hour if it is.
-- A cancelled batch stays in `cancelled` for as long as it is known, so that jobs that arrive late are refused.

local batchKey, resultsKey, knownKey, batchesKey, cancelledKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local jobsKey, endedKey, statKey, creditKey = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local batch, minimumAge = ARGV[1], tonumber(ARGV[2])

local t = now()
-- A damaged key has no counters, and is forgotten by its time.
local isHash = redis.call('TYPE', batchKey).ok == 'hash'
if isHash then
  local v = redis.call('HMGET', batchKey, 'finished', 'created', 'total', 'done', 'failed', 'cancelled', 'deduplicated')
  local since = tonumber(v[1]) or tonumber(redis.call('ZSCORE', endedKey, batch) or v[2]) or 0
  local ended = 0
  for i = 4, 7 do ended = ended + (tonumber(v[i]) or 0) end
  local isOpen = ended < (tonumber(v[3]) or 0) or redis.call('EXISTS', jobsKey) == 1
  if since > t - minimumAge or isOpen then
    redis.call('ZADD', endedKey, isOpen and math.min(t, t - minimumAge + 3600000) or since, batch)
    return 0
  end
  -- Fails for a damaged ledger, whose bytes then stay counted.
  local isRead, _, _, noted = pcall(storedOutcomes, batchKey, resultsKey)
  if isRead then addToGauge(statKey, 'outcome_bytes', -noted) end
end
redis.call('UNLINK', batchKey, resultsKey, knownKey)
redis.call('ZREM', batchesKey, batch)
redis.call('ZREM', endedKey, batch)
redis.call('SREM', cancelledKey, batch)
-- Of an intake that was cancelled.
redis.call('HDEL', creditKey, batch)
return 1
