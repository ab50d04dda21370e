#!lua flags=allow-oom
-- renewPermit: renews a permit.
--
-- KEYS 1 fetching:<host>
-- ARGV 1 token · 2 ms after which it expires
-- Returns 1, or 0 if it has expired: another request may hold its slot, and the permit is not restored.

local fetchingKey = KEYS[1]
local token, expiry = ARGV[1], tonumber(ARGV[2])

if not redis.call('ZSCORE', fetchingKey, token) then return 0 end
local _, ms = now()
redis.call('PEXPIRE', fetchingKey, 4 * expiry)
redis.call('ZADD', fetchingKey, 'XX', ms + expiry, token)
return 1
