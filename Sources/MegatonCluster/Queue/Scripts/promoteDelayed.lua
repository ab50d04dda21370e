#!lua flags=allow-oom
-- promoteDelayed: makes delayed and held jobs of a cancelled batch ready at once, so that they end when a worker claims
-- them and not when they are due.
--
-- KEYS 1 delay · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 holding · 8 heldbytes · 9 body
-- ARGV 1 batch · 2… ids
-- Returns how many were made ready. Ids that wait no longer, or belong to another batch, are left alone.

local delayKey, metaKey, wakeKey, holdingKey = KEYS[1], KEYS[2], KEYS[6], KEYS[7]
local heldBytesKey, bodyKey = KEYS[8], KEYS[9]
local frontier = {bytes = heldBytesKey, body = bodyKey}
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}
local batch, firstId = ARGV[1], 2

local moved = 0
for i = firstId, #ARGV do
  local id = ARGV[i]
  local m = redis.call('HGET', metaKey, id)
  if m then
    local a, s, w, p, b, f, d, h = unpackMeta(m)
    local isHeld = b == batch and string.sub(w, 1, 1) == '#'
    if isHeld and redis.call('ZREM', holdingKey, holdingEntry(h, p, string.sub(w, 2), id)) == 1 then
      redis.call('HSET', metaKey, id, packMeta(a, s, readyMark(now()), p, b, f, d, h))
    else
      isHeld = false
    end
    if isHeld or b == batch and redis.call('ZREM', delayKey, id) == 1 then
      countHeldBytes(frontier, {id}, -1, sourceCount(d) - 1)
      redis.call('RPUSH', readyKeys[tonumber(p)], id)
      redis.call('LPUSH', wakeKey, '1')
      moved = moved + 1
    end
  end
end
if moved > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
return moved
