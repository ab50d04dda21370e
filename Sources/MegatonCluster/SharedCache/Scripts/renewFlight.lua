#!lua flags=allow-oom
-- renewFlight: renews the lease of a flight.
--
-- KEYS 1 flight
-- ARGV 1 owner · 2 token · 3 lease, ms
-- Returns 1, or 0 if the owner no longer holds the flight.

local flightKey = KEYS[1]
local owner, token, leaseTime = ARGV[1], ARGV[2], ARGV[3]

local f = redis.call('HMGET', flightKey, 'o', 't')
if f[1] ~= owner or f[2] ~= token then return 0 end
return redis.call('PEXPIRE', flightKey, leaseTime)
