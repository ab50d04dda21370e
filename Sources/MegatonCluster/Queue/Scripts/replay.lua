#!lua flags=allow-oom
-- replay: moves jobs that an earlier leader staged and never admitted into the stage of this leader.
--
-- KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 stage:<older>
-- ARGV 1 caller's name · 2 epoch · 3 the older epoch · 4 maximum number of jobs
-- Returns how many were moved, or the error NOTLEADER. The older stage is forgotten once it is empty.

local leaderKey, epochKey, stageKey, stagesKey, olderStageKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local caller, epoch, olderEpoch, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
local moved = 0
while moved < limit and redis.call('LMOVE', olderStageKey, stageKey, 'LEFT', 'RIGHT') do
  moved = moved + 1
end
if moved > 0 then redis.call('SADD', stagesKey, epoch) end
if redis.call('EXISTS', olderStageKey) == 0 then redis.call('SREM', stagesKey, olderEpoch) end
return moved
