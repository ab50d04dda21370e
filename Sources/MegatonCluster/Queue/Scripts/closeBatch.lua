#!lua flags=allow-oom
-- closeBatch: closes a batch, so that it ends with the last of its jobs.
--
-- KEYS 1 batch:<batch> · 2 known:<batch> · 3 batches · 4 ended
-- ARGV 1 batch · 2 number of jobs that were pushed in all, `` if unknown
-- Returns 1 if the batch has ended, otherwise 0; or the error NOBATCH.
-- After: the batch accepts no more jobs of its submitter. It has ended when all of its jobs have, and no fewer than
-- that number: jobs in the public list belong to no batch before they are admitted. Without a number, it ends with the
-- jobs that it has, also if its jobs announced more (`batchSize`). Safe to repeat, with another number too.

local batchKey, knownKey, batchesKey, endedKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local batch, expected = ARGV[1], ARGV[2]

if redis.call('EXISTS', batchKey) == 0 then return redis.error_reply('NOBATCH there is no batch of this name') end
if redis.call('ZADD', batchesKey, 'NX', now(), batch) == 1 then redis.call('HSETNX', batchKey, 'created', now()) end
redis.call('ZADD', endedKey, 'NX', now(), batch)
redis.call('HSET', batchKey, 'closed', '1')
if expected ~= '' then
  redis.call('HSET', batchKey, 'expected', expected)
else
  redis.call('HDEL', batchKey, 'expected')
end
closeIfComplete(batchKey, knownKey, endedKey)
return redis.call('HEXISTS', batchKey, 'finished')
