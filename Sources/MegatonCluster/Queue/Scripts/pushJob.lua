#!lua
-- pushJob: pushes one job that names a batch to a public list, unless the batch has ended.
--
-- KEYS 1 a public list, such as jobs · 2 batch:<batch> · 3 ended
-- ARGV 1 batch · 2 the owner of a batch that this job begins, or `` if it is the operator · 3 the job's JSON
-- Returns 1, or the error BATCHCLOSED if the batch has ended.
-- Before: any state. After: the job is in the list. A batch that did not exist has its owner, and is known to readers
-- once the job is admitted; its time in `ended` lets it be forgotten if that never happens. Not safe to repeat, as
-- LPUSH. A batch whose key is no hash has no owner and no end here.
-- Not `allow-oom`: a full Redis refuses new work.

local listKey, batchKey, endedKey = KEYS[1], KEYS[2], KEYS[3]
local batch, owner, json = ARGV[1], ARGV[2], ARGV[3]

local kind = redis.call('TYPE', batchKey).ok
if kind == 'hash' and redis.call('HEXISTS', batchKey, 'finished') == 1 then
  return redis.error_reply('BATCHCLOSED the batch has ended')
end
if kind == 'none' and owner ~= '' then
  redis.call('ZADD', endedKey, 'NX', now(), batch)
  redis.call('HSET', batchKey, 'owner', owner)
end
redis.call('LPUSH', listKey, json)
return 1
