#!lua flags=allow-oom
-- giveUp: lets all jobs go that wait for a host which has not answered for long. They become ready in steps, behind all
-- others, and end without a request.
--
-- KEYS 1 held · 2 pace
-- ARGV 1 host
-- Returns `1` if jobs wait for the host, otherwise `0`.

local heldKey, paceKey = KEYS[1], KEYS[2]
local host = ARGV[1]

if not redis.call('ZSCORE', heldKey, host) then return 0 end
redis.call('ZADD', heldKey, string.format('%.0f', now()), host)
redis.call('HSET', paceKey, host, '-1')
return 1
