#!lua flags=allow-oom
-- auditIntake: adds a batch's own intake to `intakes` if it is missing there: the coordinator knows of no other
-- intakes.
--
-- KEYS 1 jobs:<batch> · 2 batch:<batch> · 3 intakes · 4 intakewake
-- ARGV 1 batch · 2 `1` to repair
-- Returns 1 if the intake has jobs and is not in `intakes`, otherwise 0.
-- After a repair: it is in `intakes`, with the batch's weight.

local jobsKey, batchKey, intakesKey, intakeWakeKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local batch, repairs = ARGV[1], ARGV[2]

if redis.call('LLEN', jobsKey) == 0 or redis.call('ZSCORE', intakesKey, batch) then return 0 end
if repairs == '1' then
  -- If the key is not a hash, the reply is a table, and the weight is 1.
  local weight = tonumber(redis.pcall('HGET', batchKey, 'weight') or '1') or 1
  redis.call('ZADD', intakesKey, weight, batch)
  redis.call('LPUSH', intakeWakeKey, '1')
  redis.call('LTRIM', intakeWakeKey, 0, 0)
end
return 1
