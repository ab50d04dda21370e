#!lua flags=allow-oom
-- auditStage: forgets an epoch whose stage is empty.
--
-- KEYS 1 epoch · 2 stages · 3 stage:<older>
-- ARGV 1 the older epoch · 2 `1` to repair
-- Returns 1 if it is in `stages`, is not the current one, and has nothing staged; otherwise 0.
-- After a repair: the epoch is no longer in `stages`.

local epochKey, stagesKey, olderStageKey = KEYS[1], KEYS[2], KEYS[3]
local olderEpoch, repairs = ARGV[1], ARGV[2]

if redis.call('GET', epochKey) == olderEpoch or redis.call('EXISTS', olderStageKey) == 1 or
   redis.call('SISMEMBER', stagesKey, olderEpoch) == 0 then
  return 0
end
if repairs == '1' then redis.call('SREM', stagesKey, olderEpoch) end
return 1
