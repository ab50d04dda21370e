#!lua flags=allow-oom
-- resign: releases the leader's lease.
--
-- KEYS 1 leader
-- ARGV 1 caller's name
-- Returns 1 if the caller was the leader, otherwise 0.

local leaderKey = KEYS[1]
local caller = ARGV[1]

if redis.call('GET', leaderKey) == caller then return redis.call('DEL', leaderKey) end
return 0
