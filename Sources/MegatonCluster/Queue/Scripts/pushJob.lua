#!lua
-- pushJob: pushes one job that names a batch to a public list, unless the batch is another client's or has ended.
--
-- KEYS 1 a public list, such as jobs · 2 batch:<batch> · 3 ended
-- ARGV 1 batch · 2 the owner of a batch that this job begins, or `` if it is the operator · 3 the job's JSON ·
--      4 `1` if the client may push to batches of all owners · 5 `1` if the job names the number of jobs of its batch
-- Returns 1, or the error OTHEROWNER if the client may not push the job to the batch, or BATCHCLOSED if the batch has
--      ended. To a batch that has neither an owner nor a submitter, as it began in a public list or with a server of
--      an earlier version, every client may push jobs that do not close it.
-- Before: any state. After: the job is in the list. A batch that did not exist has its owner, and is known to readers
-- once the job is admitted; its time in `ended` lets it be forgotten if that never happens. Not safe to repeat, as
-- LPUSH. A batch whose key is no hash has no owner and no end here.
-- Not `allow-oom`: a full Redis refuses new work.

local listKey, batchKey, endedKey = KEYS[1], KEYS[2], KEYS[3]
local batch, owner, json, mayPushToAll, closes = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5] == '1'

local kind = redis.call('TYPE', batchKey).ok
if kind == 'hash' then
  local finished, stored, closed, submitter =
    unpack(redis.call('HMGET', batchKey, 'finished', 'owner', 'closed', 'submitter'))
  -- Only the first number closes a batch, and none closes it again (`admit`).
  local isOther = submitter or closes and not closed
  if stored then isOther = stored ~= owner end
  if isOther and not mayPushToAll then
    return redis.error_reply('OTHEROWNER the batch belongs to another client')
  end
  if finished then return redis.error_reply('BATCHCLOSED the batch has ended') end
end
if kind == 'none' and owner ~= '' then
  redis.call('ZADD', endedKey, 'NX', now(), batch)
  redis.call('HSET', batchKey, 'owner', owner)
end
redis.call('LPUSH', listKey, json)
return 1
