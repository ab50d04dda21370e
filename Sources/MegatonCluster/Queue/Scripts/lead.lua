#!lua flags=allow-oom
-- lead: acquires or renews the leader's lease, and the one of protocol 1.
--
-- KEYS 1 leader · 2 epoch · 3 leader of protocol 1 · 4 coordinators
-- ARGV 1 caller's name · 2 lease, ms · 3 caller's name in the lease of protocol 1, which begins with `protocol-` ·
--      4 that lease, ms · 5 protocol and program version of the caller, empty for a fallback
-- Returns {1, epoch} to the leader, {0, ms left of the leader's lease} to the others; -1 ms if it does not expire.
-- After: the epoch is one higher if the lease was newly acquired, so that `publish`, `stage` and `admit` refuse later
-- calls of the previous leader. A leader whose name begins with `reserve:` yields to any caller whose name does not.
-- While one leads, no coordinator or fallback of protocol 1 does, and the reverse. `coordinators` has the last 100
-- callers of a minute.

local leaderKey, epochKey, formerKey, coordinatorsKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local caller, lease, formerName, formerLease, versions = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if versions ~= '' then
  local t = now()
  redis.call('ZADD', coordinatorsKey, t, caller .. ' ' .. versions)
  redis.call('ZREMRANGEBYSCORE', coordinatorsKey, '-inf', t - 60000)
  redis.call('ZREMRANGEBYRANK', coordinatorsKey, 0, -101)
end
local former = redis.call('GET', formerKey)
if former and string.sub(former, 1, 9) ~= 'protocol-' then return {0, redis.call('PTTL', formerKey)} end
local leader = redis.call('GET', leaderKey)
local yields = leader and string.sub(leader, 1, 8) == 'reserve:' and string.sub(caller, 1, 8) ~= 'reserve:'
if leader and leader ~= caller and not yields then return {0, redis.call('PTTL', leaderKey)} end
redis.call('SET', leaderKey, caller, 'PX', lease)
redis.call('SET', formerKey, formerName, 'PX', formerLease)
if leader == caller then return {1, tonumber(redis.call('GET', epochKey) or '0')} end
return {1, redis.call('INCR', epochKey)}
