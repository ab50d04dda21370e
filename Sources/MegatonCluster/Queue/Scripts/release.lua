#!lua flags=allow-oom
-- release: releases jobs that were not started or will not be finished. The attempt does not count.
--
-- KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 workers · 8 workerinfo · 9 isolating
-- ARGV 1 worker · 2 `1` if the worker leaves · 3… pairs of id and attempt
-- Returns how many were released.
--
-- After: they are the next to be claimed.

local leaseKey, metaKey, wakeKey, workersKey, workerInfoKey = KEYS[1], KEYS[2], KEYS[6], KEYS[7], KEYS[8]
local isolatingKey = KEYS[9]
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}
local worker, leaves, firstPair = ARGV[1], ARGV[2], 3

local released = 0
for i = firstPair, #ARGV, 2 do
  local id, attempt = ARGV[i], tonumber(ARGV[i + 1])
  local m = redis.call('HGET', metaKey, id)
  if m then
    local a, s, w, p, b, f, d, h = unpackMeta(m)
    if a == attempt and w == worker and redis.call('ZREM', leaseKey, id) == 1 then
      redis.call('HSET', metaKey, id, packMeta(a, s, readyMark(now()), p, b, f + 1, d, h))
      if d ~= '' then redis.call('ZREM', isolatingKey, d) end
      redis.call('RPUSH', readyKeys[tonumber(p)], id)
      redis.call('LPUSH', wakeKey, '1')
      released = released + 1
    end
  end
end
if released > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
if leaves == '1' then
  redis.call('ZREM', workersKey, worker)
  redis.call('HDEL', workerInfoKey, worker)
end
return released
