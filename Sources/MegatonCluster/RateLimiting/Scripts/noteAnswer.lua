#!lua flags=allow-oom
-- noteAnswer: notes that a host has begun to answer for the first time, while the body still arrives.
--
-- KEYS 1 rate · 2 held · 3 wake
-- ARGV 1 host · 2 failures that open the circuit · 3 requests at a time, and failures that open the circuit, before the
--      first answer
-- Returns 1, or 0 if the host had answered before.
-- After: the limits of a host that has never answered do not hold any more. A host whose bodies take ten seconds would
-- otherwise get only the first few requests for so long. Its jobs that wait have their next turn at once, with a token
-- that wakes a worker for it, as in `releasePermit`; an open circuit stays open.

local rateKey, heldKey, wakeKey = KEYS[1], KEYS[2], KEYS[3]
local host, failureThreshold, first = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local us, ms = now()
local state = readHost(rateKey, host)
if state.heard == 1 then return 0 end
hear(state, failureThreshold, first)
storeHost(rateKey, host, state)
if state.open <= ms and state.blocked <= ms and state.tat <= us
    and redis.call('ZADD', heldKey, 'XX', 'LT', 'CH', ms, host) == 1 then
  redis.call('LPUSH', wakeKey, '1')
  redis.call('LTRIM', wakeKey, 0, 255)
end
return 1
