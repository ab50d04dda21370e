#!lua flags=allow-oom
-- drop: deletes dead letters for good.
--
-- KEYS 1 dead · 2 deadinfo
-- ARGV ids
-- Returns how many there were.

local deadKey, deadInfoKey = KEYS[1], KEYS[2]

local dropped = 0
for _, id in ipairs(ARGV) do
  dropped = dropped + redis.call('ZREM', deadKey, id)
  redis.call('HDEL', deadInfoKey, id)
end
return dropped
