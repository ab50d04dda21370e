#!lua flags=allow-oom
-- takeOverFlight: makes the caller, which has asked the origin although there was an entry, the leader of a key, unless
-- the origin was asked later for the entry, or by a caller that has taken the flight over meanwhile.
--
-- KEYS 1 entry · 2 flight
-- ARGV 1 owner · 2 lease, ms · 3 when the caller asked the origin, seconds since 1970 · 4 number of this call, as in
--      `beginFlight`
-- Returns {`newer`}: the caller's result is outdated, and nothing has changed; or {`lead`, token, `1` if there was an
--      entry or a flight, else `0`}.
-- After `lead`: the owner holds the flight for the lease, and a former leader does not: its result is refused. Waiters
-- stay registered, and are notified when the new flight ends. The entry stays until then, and its replacement is
-- published to near caches.

local entryKey, flightKey = KEYS[1], KEYS[2]
local owner, leaseTime, asked, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local fetched = tonumber(asked)

local e = redis.call('HMGET', entryKey, 'm', 't', 'v')
local f = redis.call('HMGET', flightKey, 'o', 't', 'v')
-- Within a text of the JSON, the quotation marks would be escaped.
local version = e[3] or string.match(e[1] or '', '"fetched":([%d.eE+-]+)')
if (tonumber(version or '') or 0) > fetched or (tonumber(f[3] or '') or 0) > fetched then return {'newer'} end
local t = redis.call('TIME')
local last = math.max(tonumber(e[2] or '0'), tonumber(f[2] or '0'))
local token = string.format('%.0f', math.max(t[1] * 1000000 + t[2], last + 1))
-- With the number of the former leader's call, a lookup of the same owner would take the flight for one whose reply was
-- lost.
redis.call('HSET', flightKey, 'o', owner, 't', token, 'v', asked, 'n', number)
if e[2] then redis.call('HSET', flightKey, 'r', '1') end
redis.call('PEXPIRE', flightKey, leaseTime)
return {'lead', token, (e[2] or f[1]) and '1' or '0'}
