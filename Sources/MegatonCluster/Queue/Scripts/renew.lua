#!lua flags=allow-oom
-- renew: renews a worker's leases, and is its heartbeat.
--
-- KEYS 1 lease · 2 meta · 3 workers · 4 workerinfo · 5 cancelled · 6 crashes · 7 isolating
-- ARGV 1 worker · 2 lease, ms · 3 number of running jobs · 4 description of the worker, JSON · 5 `1` if these two may
--      differ from those in `workerinfo` · 6… pairs of id and attempt
-- Returns {{ids that are no longer the worker's}, {ids whose batch was cancelled}, {ids whose source three processes
--      have died of}, number of workers that have renewed within the lease time}.
-- After: each lease that is still the worker's, by its attempt number, ends one lease time from now, and a suspected
-- source that is running stays marked as running for as long.

local leaseKey, metaKey, workersKey, workerInfoKey, cancelledKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local crashesKey, isolatingKey = KEYS[6], KEYS[7]
local worker, leaseTime, running, info = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local isChanged, firstPair = ARGV[5], 6

local t = now()
local lost, cancelled, quarantined, digests, ids = {}, {}, {}, {}, {}
for i = firstPair, #ARGV, 2 do
  local id, attempt = ARGV[i], tonumber(ARGV[i + 1])
  local mine = false
  local m = redis.call('HGET', metaKey, id)
  if m then
    local a, s, w, p, b, _, d = unpackMeta(m)
    if a == attempt and w == worker and redis.call('ZSCORE', leaseKey, id) then
      redis.call('ZADD', leaseKey, 'XX', 'GT', t + leaseTime, id)
      mine = true
      if d ~= '' then
        digests[#digests + 1] = d
        ids[#ids + 1] = id
      end
      if b ~= '' and redis.call('SISMEMBER', cancelledKey, b) == 1 then cancelled[#cancelled + 1] = id end
    end
  end
  if not mine then lost[#lost + 1] = id end
end
local counts = deathCounts(crashesKey, digests, t)
for i, d in ipairs(digests) do
  if (counts[d] or 0) >= 3 then
    quarantined[#quarantined + 1] = ids[i]
  elseif counts[d] == 2 then
    redis.call('ZADD', isolatingKey, 'XX', 'GT', t + leaseTime, d)
  end
end
-- A worker that is new here, or was forgotten, has no description.
if redis.call('ZADD', workersKey, t, worker) == 1 or isChanged == '1' then
  redis.call('HSET', workerInfoKey, worker, running .. ' ' .. info)
end
return {lost, cancelled, quarantined, redis.call('ZCOUNT', workersKey, t - leaseTime, '+inf')}
