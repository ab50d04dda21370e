#!lua flags=allow-oom
-- cancelBatch: drops the jobs of a batch that have not been staged, and marks the rest as no longer wanted.
--
-- KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 cancelled · 4 intakes · 5 known:<batch> · 6 stat · 7 ended ·
--      8 results:<batch>
-- ARGV 1 batch · 2 the submitter; empty for any
-- Returns how many jobs were dropped, sources of packs included, or the error NOBATCH. If a submitter is given and has
--      no batch of this name, it does nothing and returns -1.
-- If the batch has packs or a ledger, one call drops about 256 KiB of its jobs, and 500 sources: the caller repeats it
-- while jobs:<batch> exists, with pauses for other clients.
-- After: the batch is closed, and the dropped jobs count as cancelled. In the ledger each of them has an outcome, if it
-- can be read and has an id. Jobs that are ready, delayed or staged end as cancelled when a worker or the coordinator
-- reaches them, and running jobs when their worker renews next.
-- A batch whose counters or `known` are damaged does not count the dropped jobs, which are in `damaged_batch_ends` of
-- stat then, and is not marked as finished. Outcomes that cannot be written are counted there, too. If its key is no
-- hash, the call is an error and has changed nothing.

local jobsKey, batchKey, cancelledKey, intakesKey, knownKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local statKey, endedKey, resultsKey = KEYS[6], KEYS[7], KEYS[8]
local batch, submitter = ARGV[1], ARGV[2]

if submitter ~= '' and redis.call('HGET', batchKey, 'submitter') ~= submitter then return -1 end
if redis.call('EXISTS', batchKey) == 0 then return redis.error_reply('NOBATCH there is no batch of this name') end
local isPacked = redis.call('HEXISTS', batchKey, 'packs') == 1
local isDamaged = not isConsistent(batchKey, knownKey)
local keepsLedger = not isDamaged and redis.call('HGET', batchKey, 'ledger') == '1'
local dropped, unwritten, outcomes = 0, 0, {}
-- One outcome, or one for each source of a pack. It may throw: labels can be read that cannot be written, as 1e999.
local function addOutcomes(json, job, isPack)
  if type(job.id) ~= 'string' then return end
  local key, message = batch .. '/' .. job.id, 'The batch was cancelled before the job began.'
  if isPack then
    local all = refusedOutcomes(key, json, 'cancelled', 'cancelled', message)
    for _, outcome in ipairs(all) do outcomes[#outcomes + 1] = outcome end
    return
  end
  outcomes[#outcomes + 1] = refusedOutcome(key, json, 'cancelled', 'cancelled', message, labelsOf(job, json))
end
if isPacked or keepsLedger then
  -- The sources of packs have to be counted, and the ledger needs an outcome for each: some milliseconds at a time.
  local bytes = 0
  while bytes < 262144 and dropped < 500 do
    local json = redis.call('RPOP', jobsKey)
    if not json then break end
    bytes = bytes + #json
    local read, job = pcall(cjson.decode, json)
    local isJob = read and type(job) == 'table'
    local isPack = isJob and type(job.sources) == 'table'
    local count = isPack and math.max(#job.sources, 1) or 1
    dropped = dropped + count
    if isJob and keepsLedger and not pcall(addOutcomes, json, job, isPack) then unwritten = unwritten + count end
  end
else
  dropped = redis.call('LLEN', jobsKey)
  redis.call('UNLINK', jobsKey)
end
redis.call('SADD', cancelledKey, batch)
-- Jobs that are left stay in reach of the leader, in case the caller dies before it has dropped them.
if redis.call('EXISTS', jobsKey) == 0 then redis.call('ZREM', intakesKey, batch) end
redis.call('HSET', batchKey, 'closed', '1')
-- Jobs that were announced and did not come are no longer awaited.
redis.call('HDEL', batchKey, 'expected')
redis.call('ZADD', endedKey, 'NX', now(), batch)
if dropped > 0 then
  redis.call('HINCRBY', statKey, 'cancelled', dropped)
  if isDamaged then
    redis.call('HINCRBY', statKey, 'damaged_batch_ends', dropped)
  else
    redis.call('HINCRBY', batchKey, 'total', dropped)
    redis.call('HINCRBY', batchKey, 'own', dropped)
    redis.call('HINCRBY', batchKey, 'cancelled', dropped)
  end
end
if not isDamaged then closeIfComplete(batchKey, knownKey, endedKey) end
-- Last, so that no count is lost to a damaged ledger.
if #outcomes > 0 and not pcall(keepOutcomes, statKey, batchKey, resultsKey, outcomes) then
  unwritten = unwritten + #outcomes
end
if unwritten > 0 then redis.call('HINCRBY', statKey, 'damaged_batch_ends', unwritten) end
return dropped
