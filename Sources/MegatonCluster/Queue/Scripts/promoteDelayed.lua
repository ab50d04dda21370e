#!lua flags=allow-oom
-- promoteDelayed: makes delayed jobs of a cancelled batch ready at once, so that they end when a worker claims them and
-- not when they are due.
--
-- KEYS 1 delay · 2 meta · 3-5 ready: high, normal, bulk · 6 wake
-- ARGV 1 batch · 2… ids
-- Returns how many were made ready. Ids that are no longer delayed, or belong to another batch, are left alone.

local delayKey, metaKey, wakeKey = KEYS[1], KEYS[2], KEYS[6]
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}
local batch, firstId = ARGV[1], 2

local moved = 0
for i = firstId, #ARGV do
  local id = ARGV[i]
  local m = redis.call('HGET', metaKey, id)
  if m then
    local _, _, _, p, b = unpackMeta(m)
    if b == batch and redis.call('ZREM', delayKey, id) == 1 then
      redis.call('RPUSH', readyKeys[tonumber(p)], id)
      redis.call('LPUSH', wakeKey, '1')
      moved = moved + 1
    end
  end
end
if moved > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
return moved
