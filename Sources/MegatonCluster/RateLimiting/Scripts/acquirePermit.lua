#!lua flags=allow-oom
-- acquirePermit: acquires a permit to fetch from a host, if its rate, its concurrency and its circuit breaker allow it.
--
-- KEYS 1 rate · 2 fetching:<host>
-- ARGV 1 host · 2 token · 3 requests per second, 0 for no limit · 4 burst · 5 concurrency · 6 failures that open the
--      circuit · 7 ms after which a permit expires
-- Returns {`go`, `1` if the host is healthy and fewer than half of its slots are taken} · {`wait`, ms until its turn,
--      ms for which the host still asks for no requests} · {`open`, ms until the next probe, number of consecutive
--      circuit openings}.
-- After `go`: the token is in `fetching`, and the rate has counted it. After `wait`: the turn is later than those of
-- all requests refused before, but at most a minute ahead, and from there on anywhere in the second half of that
-- minute, so that refused requests do not return together. Once its open time is over, a host with an open circuit gets
-- one request at a time: the probe.

local rateKey, fetchingKey = KEYS[1], KEYS[2]
local host, token, requestsPerSecond, burst = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local concurrency, failureThreshold, expiry = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local us, ms = now()
local state = readHost(rateKey, host)
if state.open > ms then return {'open', state.open - ms, state.failures - failureThreshold + 1} end
redis.call('ZREMRANGEBYSCORE', fetchingKey, '-inf', ms)
local busy = redis.call('ZCARD', fetchingKey)
local limit = math.max(1, math.floor(concurrency * state.factor))
if state.failures >= failureThreshold then limit = 1 end
local rate = requestsPerSecond * state.factor
local interval = rate > 0 and 1000000 / rate or 0
local early = rate > 0 and state.tat - burst * interval > us
if state.blocked > ms or busy >= limit or early then
  local from = math.max(state.slot, us, state.blocked * 1000)
  if early then from = math.max(from, state.tat - burst * interval) end
  local last = math.max(us, state.blocked * 1000) + 60000000
  state.slot = from + math.max(interval, state.mean / limit, 1000)
  if state.slot > last then state.slot = last - us * 7919 % 30000000 end
  storeHost(rateKey, host, state)
  return {'wait', math.ceil((state.slot - us) / 1000), math.max(0, state.blocked - ms)}
end
if rate > 0 then state.tat = math.max(state.tat, us) + interval end
redis.call('ZADD', fetchingKey, ms + expiry, token)
redis.call('PEXPIRE', fetchingKey, 4 * expiry)
storeHost(rateKey, host, state)
return {'go', state.failures == 0 and state.factor == 1 and 2 * busy < limit and 1 or 0}
