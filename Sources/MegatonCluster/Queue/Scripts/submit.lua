#!lua
-- submit: pushes jobs to a batch's own intake, each exactly once.
--
-- KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 batches · 4 intakes · 5 intakewake · 6 cancelled · 7 known:<batch> ·
--      8 ended
-- ARGV 1 batch · 2 number of the first job, counted from 0 · 3 `1` if no more will come · 4 `1` to keep a ledger ·
--      5 `1` to admit equal jobs only once · 6 the batch's weight · 7 the submitter: a batch has only one · 8 `1` if no
--      id so far can occur twice, so that none has to be remembered · 9 the numbers of sources of the jobs, with commas
--      between, or `` if each has one · 10 the number of shards in all of which the batch has begun, or `` if it is
--      the only one or they have not all begun yet · 11 the owner of the batch, or `` if it is the operator · 12 for
--      each job `1` if it goes before all that wait in the intake, and `0` if not, or `` if none does · 13… the jobs'
--      JSON
-- Returns how many jobs of the batch are submitted now, or the error BATCHEXISTS; or BATCHBEHIND if jobs before the
--      first one are missing, as Redis has returned to an earlier state; or BATCHCLOSED if the batch was closed by
--      another process.
-- Before: any state. After: `submitted` = first + count, however often the call was repeated: the number of the first
-- job shows which of them are there already, so that a call can be repeated after a lost reply. A pack counts as its
-- sources in all numbers. A cancelled batch accepts no more jobs. The number of shards shows a reader that
-- one of them has lost its part. A batch has one owner: a submitter joins no batch of another owner whose jobs were
-- pushed to the public lists. Processes of earlier versions store no owner and leave that of a batch as it is.
-- Not `allow-oom`: a full Redis refuses new work.

local jobsKey, batchKey, batchesKey, intakesKey, intakeWakeKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local cancelledKey, knownKey, endedKey = KEYS[6], KEYS[7], KEYS[8]
local batch, first, isLast, keepsLedger, deduplicates = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local weight, submitter, idsAreUnique, shards, firstJob = ARGV[6], ARGV[7], ARGV[8], ARGV[10], 13
local owner, urgent = ARGV[11], ARGV[12]
local sizeList, sizes, count = ARGV[9], {}, 0
for size in string.gmatch(sizeList, '%d+') do sizes[#sizes + 1] = tonumber(size) end
for i = firstJob, #ARGV do count = count + (sizes[i - firstJob + 1] or 1) end

local stored = redis.call('HMGET', batchKey, 'submitter', 'owner')
local isTaken = stored[1] and stored[1] ~= submitter
if not stored[1] and (stored[2] or '') ~= owner then isTaken = redis.call('EXISTS', batchKey) == 1 end
if isTaken then
  return redis.error_reply('BATCHEXISTS a batch of this name has been submitted before')
end
if redis.call('SISMEMBER', cancelledKey, batch) == 1 then
  return tonumber(redis.call('HGET', batchKey, 'submitted') or '0')
end
local have = tonumber(redis.call('HGET', batchKey, 'submitted') or '0')
if first > have then return redis.error_reply('BATCHBEHIND jobs of the batch are missing before this one') end
local isNew = have < first + count
if isNew and redis.call('HGET', batchKey, 'closed') == '1' then
  return redis.error_reply('BATCHCLOSED the batch was closed')
end
if redis.call('ZADD', batchesKey, 'NX', now(), batch) == 1 then
  redis.call('HSET', batchKey, 'created', now())
end
redis.call('ZADD', endedKey, now(), batch)
redis.call('HSET', batchKey, 'submitter', submitter, 'ledger', keepsLedger, 'deduplicate', deduplicates, 'weight',
           weight, 'unique', idsAreUnique)
local number = first
for i = firstJob, #ARGV do
  local size = sizes[i - firstJob + 1] or 1
  if number >= have then
    local isUrgent = string.sub(urgent, i - firstJob + 1, i - firstJob + 1) == '1'
    redis.call(isUrgent and 'RPUSH' or 'LPUSH', jobsKey, ARGV[i])
    have = have + size
  end
  number = number + size
end
if #sizes > 0 then redis.call('HSET', batchKey, 'packs', '1') end
if owner ~= '' then redis.call('HSET', batchKey, 'owner', owner) end
if shards ~= '' then redis.call('HSET', batchKey, 'shards', shards) end
redis.call('HSET', batchKey, 'submitted', have)
redis.call('ZADD', intakesKey, weight, batch)
redis.call('LPUSH', intakeWakeKey, '1')
redis.call('LTRIM', intakeWakeKey, 0, 0)
if isLast == '1' then
  redis.call('HSET', batchKey, 'closed', '1')
  closeIfComplete(batchKey, knownKey, endedKey)
end
return have
