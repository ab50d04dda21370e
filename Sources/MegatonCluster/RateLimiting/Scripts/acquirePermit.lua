#!lua flags=allow-oom
-- acquirePermit: acquires a permit to fetch from a host, if its rate, its concurrency and its circuit breaker allow it.
--
-- KEYS 1 rate · 2 fetching:<host>
-- ARGV 1 host · 2 token · 3 requests per second, 0 for no limit · 4 burst · 5 concurrency · 6 failures that open the
--      circuit · 7 ms after which a permit expires · 8 `1` if jobs of another shard than that of the host's state wait
--      · 9 requests at a time, and failures that open the circuit, before the first answer
-- Returns {`go`, `1` if the host has answered, is healthy, and fewer than half of its slots are taken, `1` if it has
--      ever begun to answer} · {`wait`, ms until the host takes the next request, µs from one request to the next, ms
--      for which the host still asks for no requests} · {`open`, ms until the next probe, µs from one request to the
--      next, ms for which the host has failed (`releasePermit`), `1` if it has ever answered, the reason of the last
--      failure or ``, `1` if the probe is under way: then the wait is until the caller should ask again}.
-- After `go`: the token is in `fetching`, and the rate has counted it. A refusal changes nothing: the queue holds the
-- jobs of the host, and gives them their turns. Both note that jobs of another shard wait (`releasePermit`). Once its
-- open time is over, a host with an open circuit gets one request at a time: the probe. While that of a host is under
-- way of which no byte has ever arrived, the circuit counts as open: a probe ends after seconds, if at all, and the
-- jobs of a host that has been silent for longer than they are to wait need not wait for it.

local rateKey, fetchingKey = KEYS[1], KEYS[2]
local host, token, requestsPerSecond, burst = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local concurrency, failureThreshold, expiry = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local othersWait, first = ARGV[8] == '1', tonumber(ARGV[9])

local us, ms = now()
local state = readHost(rateKey, host)
redis.call('ZREMRANGEBYSCORE', fetchingKey, '-inf', ms)
local busy = redis.call('ZCARD', fetchingKey)
local limit = math.max(1, math.floor(concurrency * state.factor))
if state.failures >= limited(state, failureThreshold, first) then limit = 1 end
local rate = requestsPerSecond * state.factor
local interval = rate > 0 and 1000000 / rate or 0
local early = rate > 0 and state.tat - burst * interval > us
-- At most 1 s without a rate: after an outage the mean is that of requests without an answer, and only a refusal
-- changes the pace of the jobs that other shards hold.
local step = math.ceil(math.max(interval, math.min(state.mean / limit, 1000000), 1000))
local hasAnswered = state.heard == 1 and 1 or 0
if state.open > ms then
  return {'open', state.open - ms, step, ms - (state.since > 0 and state.since or ms), hasAnswered,
          state.last, 0}
end
local isProbed = state.heard == 0 and state.failures >= limited(state, failureThreshold, first)
-- The pace above is that of a host that answers: the first bytes lift this limit (`noteAnswer`), and so does the first
-- answer, even a failure. Failures count in it: as many as requests open the circuit, and more would find out nothing.
if state.heard == 0 then limit = math.max(1, limited(state, limit, first) - state.failures) end
local isNoted = othersWait and state.others % 2 == 0
if isNoted then state.others = state.others + 1 end
if state.blocked > ms or busy >= limit or early then
  local turn = us
  if busy >= limit and state.heard == 0 then
    -- Nothing is known of how long the host takes. Its first answer brings the turn forward, unless the job is held
    -- only after it: so the wait is short at first, and as long as the host has been silent later.
    local oldest = tonumber(redis.call('ZRANGE', fetchingKey, 0, 0, 'WITHSCORES')[2]) - expiry
    turn = us + 1000 * math.max(20, math.min(ms - oldest, 1000))
  elseif busy >= limit then
    -- A host that has answered may hang now: its turn is as far as it has begun no request, as above.
    local silence = state.tat > 0 and math.min(math.max(us - state.tat, 0), 1000000) or 0
    turn = us + math.max(state.mean / limit, silence, 1000)
  end
  if early then turn = math.max(turn, state.tat - burst * interval) end
  turn = math.max(turn, state.blocked * 1000)
  if isNoted then storeHost(rateKey, host, state) end
  if isProbed and busy >= limit then
    return {'open', math.ceil((turn - us) / 1000), step, ms - (state.since > 0 and state.since or ms), hasAnswered,
            state.last, 1}
  end
  return {'wait', math.ceil((turn - us) / 1000), step, math.max(0, state.blocked - ms)}
end
-- Another process may have a rate, and its time stays; one that is a minute ahead is of another clock.
if rate > 0 or state.tat <= us + 60000000 then state.tat = math.max(state.tat, us) + interval else state.tat = us end
redis.call('ZADD', fetchingKey, ms + expiry, token)
redis.call('PEXPIRE', fetchingKey, 4 * expiry)
storeHost(rateKey, host, state)
local isHealthy = state.heard == 1 and state.failures == 0 and state.factor == 1 and 2 * busy < limit
return {'go', isHealthy and 1 or 0, math.min(state.heard, 1)}
