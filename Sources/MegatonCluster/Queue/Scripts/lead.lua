#!lua flags=allow-oom
-- lead: acquires or renews the leader's lease.
--
-- KEYS 1 leader · 2 epoch
-- ARGV 1 caller's name · 2 lease, ms
-- Returns {1, epoch} to the leader, {0, ms left of the leader's lease} to the others.
-- After: the epoch is one higher if the lease was newly acquired, so that `stage` and `admit` refuse later calls of the
-- previous leader. A leader whose name begins with `reserve:` yields to any caller whose name does not.

local leaderKey, epochKey = KEYS[1], KEYS[2]
local caller, lease = ARGV[1], ARGV[2]

local leader = redis.call('GET', leaderKey)
if leader == caller then
  redis.call('PEXPIRE', leaderKey, lease)
  return {1, tonumber(redis.call('GET', epochKey) or '0')}
end
local yields = leader and string.sub(leader, 1, 8) == 'reserve:' and string.sub(caller, 1, 8) ~= 'reserve:'
if leader and not yields then return {0, redis.call('PTTL', leaderKey)} end
redis.call('SET', leaderKey, caller, 'PX', lease)
return {1, redis.call('INCR', epochKey)}
