#!lua flags=no-writes
-- misplaced: finds jobs that are inconsistent: each must have a body, a meta and exactly one place.
--
-- KEYS 1 body · 2 meta · 3-5 ready · 6 lease · 7 delay · 8 suspects · 9 holding
-- ARGV none
-- Returns a sentence for each inconsistent job, at most twenty. Changes nothing.

local bodyKey, metaKey, leaseKey, delayKey, suspectsKey = KEYS[1], KEYS[2], KEYS[6], KEYS[7], KEYS[8]
local holdingKey = KEYS[9]
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}

local places, wrong = {}, {}
local function put(ids)
  for _, id in ipairs(ids) do places[id] = (places[id] or 0) + 1 end
end
local function report(id, fault)
  if #wrong < 20 then wrong[#wrong + 1] = id .. ' ' .. fault end
end
for _, key in ipairs(readyKeys) do put(redis.call('LRANGE', key, 0, -1)) end
put(redis.call('LRANGE', suspectsKey, 0, -1))
for _, key in ipairs({leaseKey, delayKey}) do put(redis.call('ZRANGE', key, 0, -1)) end
local held = {}
for _, entry in ipairs(redis.call('ZRANGE', holdingKey, 0, -1)) do
  held[#held + 1] = string.match(entry, '^[^%z]*%z[^%z]*%z(.*)$')
end
put(held)
for _, id in ipairs(redis.call('HKEYS', bodyKey)) do
  if redis.call('HEXISTS', metaKey, id) == 0 then report(id, 'has a body and no meta') end
  if places[id] ~= 1 then report(id, 'is in ' .. (places[id] or 0) .. ' places') end
end
for id in pairs(places) do
  if redis.call('HEXISTS', bodyKey, id) == 0 then report(id, 'has a place and no body') end
end
for _, id in ipairs(redis.call('HKEYS', metaKey)) do
  if redis.call('HEXISTS', bodyKey, id) == 0 then report(id, 'has a meta and no body') end
end
return wrong
