#!lua flags=allow-oom
-- hold: moves a running job to those that wait for their host.
--
-- KEYS 1 lease · 2 meta · 3 stat · 4 batch:<b> (not touched if the job has none) · 5 cancelled · 6-8 ready: high,
--      normal, bulk · 9 wake · 10 isolating · 11 holding · 12 held · 13 pace · 14 heldbytes · 15 body
-- ARGV 1 id · 2 worker · 3 attempt · 4 host · 5 ms until the host takes another request · 6 µs from one request to the
--      next · 7… pairs of counter and number, added to the batch
-- Returns the same as `settle` for one job.
--
-- After `ok`, and after `damaged` if the batch cannot count: the job is in `holding`, in front of those of its host
-- that have not had a turn yet; the attempt does not count, and its stalls are reset, as its worker has survived it.
-- The host's next turn is after that time, whatever was known before: the caller has just asked. A job of a cancelled
-- batch is ready at once instead, so that a worker ends it, and is not counted as held.

local leaseKey, metaKey, statKey, batchKey, cancelledKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wakeKey, isolatingKey, holdingKey, heldKey, paceKey = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local heldBytesKey, bodyKey = KEYS[14], KEYS[15]
local readyKeys = {KEYS[6], KEYS[7], KEYS[8]}
local id, worker, attempt, host, pause, interval = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local firstPair = 7

local m = redis.call('HGET', metaKey, id)
if not m then return 'gone' end
local a, _, w, p, b, f, d = unpackMeta(m)
if a ~= attempt or w ~= worker then return 'fenced' end
if redis.call('ZREM', leaseKey, id) == 0 then return 'nolease' end
if d ~= '' then redis.call('ZREM', isolatingKey, d) end
local job = {id = id, a = a, s = 0, p = p, b = b, f = f + 1, d = d, h = host}
if b ~= '' and redis.call('SISMEMBER', cancelledKey, b) == 1 then
  redis.call('HSET', metaKey, id, packMeta(a, 0, '', p, b, f + 1, d, host))
  redis.call('RPUSH', readyKeys[tonumber(p)], id)
  redis.call('LPUSH', wakeKey, '1')
  redis.call('LTRIM', wakeKey, 0, 255)
else
  local t = now()
  hold(openFrontier(holdingKey, heldKey, paceKey, heldBytesKey, bodyKey), metaKey, {job}, 'a', t)
  redis.call('ZADD', heldKey, string.format('%.0f', t + tonumber(pause)), host)
  redis.call('HSET', paceKey, host, interval)
  redis.call('HINCRBY', statKey, 'held', 1)
end
if b ~= '' then
  for i = firstPair, #ARGV, 2 do
    local counted = redis.pcall('HINCRBY', batchKey, ARGV[i], ARGV[i + 1])
    if type(counted) == 'table' and counted.err then return 'damaged' end
  end
end
return 'ok'
