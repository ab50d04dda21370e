#!lua flags=allow-oom
-- noteAnswer: notes that the first bytes of a host have arrived that has never answered.
--
-- KEYS 1 rate · 2 held · 3 wake
-- ARGV 1 host
-- Returns 1, or 0 if that was known, or the host has answered.
-- After: its requests at a time are those of a host that has answered. One whose bodies take ten seconds would
-- otherwise get only the first few for so long. Its failures count as before: the response may end early, or be of no
-- use. The jobs that wait for it have their next turn at once, with a token that wakes a worker for it, as in
-- `releasePermit`.

local rateKey, heldKey, wakeKey = KEYS[1], KEYS[2], KEYS[3]
local host = ARGV[1]

local us, ms = now()
local state = readHost(rateKey, host)
if state.heard ~= 0 then return 0 end
state.heard = 2
storeHost(rateKey, host, state)
if state.open <= ms and state.blocked <= ms and state.tat <= us
    and redis.call('ZADD', heldKey, 'XX', 'LT', 'CH', ms, host) == 1 then
  redis.call('LPUSH', wakeKey, '1')
  redis.call('LTRIM', wakeKey, 0, 255)
end
return 1
