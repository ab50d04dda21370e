#!lua flags=allow-oom
-- retry: delays a job for another attempt.
--
-- KEYS 1 lease · 2 meta · 3 delay · 4 stat · 5 batch:<b> (not touched if the job has none) · 6 cancelled · 7-9 ready:
--      high, normal, bulk · 10 wake · 11 isolating · 12 heldbytes · 13 body
-- ARGV 1 id · 2 worker · 3 attempt · 4 delay, ms · 5 `1` if the attempt counts · 6… pairs of counter and number, added
--      to the batch
-- Returns the same as `settle` for one job.
--
-- After `ok`, and after `damaged` if the batch cannot count: the job is in delay, due after that time, and its stalls
-- are reset, as its worker has survived it. A job of a cancelled batch is ready at once instead, so that a worker ends
-- it.

local leaseKey, metaKey, delayKey, statKey, batchKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local cancelledKey, wakeKey, isolatingKey, heldBytesKey, bodyKey = KEYS[6], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local readyKeys = {KEYS[7], KEYS[8], KEYS[9]}
local id, worker, attempt, pause, countsAttempt = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local firstPair = 6

local m = redis.call('HGET', metaKey, id)
if not m then return 'gone' end
local a, _, w, p, b, f, d, h = unpackMeta(m)
if a ~= attempt or w ~= worker then return 'fenced' end
if redis.call('ZREM', leaseKey, id) == 0 then return 'nolease' end
if countsAttempt ~= '1' then f = f + 1 end
if d ~= '' then redis.call('ZREM', isolatingKey, d) end
redis.call('HSET', metaKey, id, packMeta(a, 0, '', p, b, f, d, h))
if b ~= '' and redis.call('SISMEMBER', cancelledKey, b) == 1 then
  redis.call('RPUSH', readyKeys[tonumber(p)], id)
  redis.call('LPUSH', wakeKey, '1')
  redis.call('LTRIM', wakeKey, 0, 255)
else
  redis.call('ZADD', delayKey, now() + pause, id)
  countHeldBytes({bytes = heldBytesKey, body = bodyKey}, {id}, 1, sourceCount(d) - 1)
end
redis.call('HINCRBY', statKey, 'retried', 1)
if b ~= '' then
  for i = firstPair, #ARGV, 2 do
    local counted = redis.pcall('HINCRBY', batchKey, ARGV[i], ARGV[i + 1])
    if type(counted) == 'table' and counted.err then return 'damaged' end
  end
end
return 'ok'
