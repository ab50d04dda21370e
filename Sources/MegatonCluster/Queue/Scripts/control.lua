#!lua flags=allow-oom
-- control: sets or clears `paused` or `drain`.
--
-- KEYS 1 control · 2 wake · 3 intakewake · 4 workers
-- ARGV 1 field · 2 `1` or `0`
-- Returns the number of workers that were woken.
-- After clearing: workers and the coordinator look for work at once and not when their sleep ends.

local controlKey, wakeKey, intakeWakeKey, workersKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local field, value = ARGV[1], ARGV[2]

redis.call('HSET', controlKey, field, value)
if value == '1' then return 0 end
local workers = math.min(256, redis.call('ZCARD', workersKey))
for _ = 1, workers do redis.call('LPUSH', wakeKey, '1') end
if workers > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
redis.call('LPUSH', intakeWakeKey, '1')
redis.call('LTRIM', intakeWakeKey, 0, 0)
return workers
