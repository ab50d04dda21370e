#!lua flags=allow-oom
-- resign: releases the leader's lease.
--
-- KEYS 1 leader · 2 coordinators
-- ARGV 1 caller's name · 2 its entry in `coordinators`
-- Returns 1 if the caller was the leader, otherwise 0.
-- The lease of protocol 1 is left to expire: until then a successor of this protocol takes over.

local leaderKey, coordinatorsKey = KEYS[1], KEYS[2]
local caller, entry = ARGV[1], ARGV[2]

redis.call('ZREM', coordinatorsKey, entry)
if redis.call('GET', leaderKey) == caller then return redis.call('DEL', leaderKey) end
return 0
