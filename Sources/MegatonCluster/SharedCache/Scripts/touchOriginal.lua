#!lua
-- touchOriginal: decides whether an original that was fetched is worth storing, and ends its flight if not. It is worth
-- it if a process waits for the flight, or if the original was fetched before.
--
-- KEYS 1 flight · 2 negative · 3 touch
-- ARGV 1 owner · 2 token · 3 ms for which the fetch is remembered
-- Returns `store`: nothing but the memory of the fetch has changed, and the leader finishes its flight with the entry;
--      `skipped`: the flight has ended, without an entry and without waiters; or `stale` if the owner no longer holds
--      the flight.
-- A flight that is gone, e.g. evicted, may have had waiters: its entry is worth storing.

local flightKey, negativeKey, touchKey = KEYS[1], KEYS[2], KEYS[3]
local owner, token, ms = ARGV[1], ARGV[2], ARGV[3]

local f = redis.call('HMGET', flightKey, 'o', 't', 'w')
if not f[1] then return 'store' end
if f[1] ~= owner or f[2] ~= token then return 'stale' end
local isFirst = redis.call('SET', touchKey, '', 'NX', 'PX', ms)
if f[3] then return 'store' end
if not isFirst then
  redis.call('PEXPIRE', touchKey, ms)
  return 'store'
end
redis.call('UNLINK', flightKey, negativeKey)
return 'skipped'
