#!lua flags=allow-oom
-- releasePermit: releases a permit and reports the outcome of its request to the host's circuit breaker and limits.
--
-- KEYS 1 rate · 2 fetching:<host> · 3 held · 4 wake · 5 pace
-- ARGV 1 host · 2 token · 3 `answered`, `earlier` (answered a while ago), `throttled`, `failed` (a response that is a
--      failure), `absent` (no response) or `none` (not known) · 4 ms to send no request, for `throttled` · 5 failures
--      that open the circuit · 6 ms for which it is open at first · 7 maximum ms for which it is open · 8 µs that the
--      request took, 0 if unknown · 9 requested path as a number above 0; 0 if unknown · 10 concurrency · 11 failures
--      that open the circuit before the first answer · 12 the reason of a failure (`HostFailure`), or ``
-- Returns {1, or 0 if the permit had expired: its outcome counts all the same, ms for which the host has failed, 0 if
-- the outcome is no failure or its circuit is closed, `1` if the host has ever answered, ms until the next probe}. The
-- time of a host that has never answered begins with its first failure, or if no byte of it has arrived when its
-- circuit opens, with the request that has opened it; that of another one when its circuit opened.
-- Jobs that wait for the host have their next turn at once if nothing but the slot was missing: the turn was only
-- estimated. A token wakes a worker for it, which may be the caller's, as its last claim may have found nothing.
-- While the host answers and fewer than half of its slots are taken, the time between two turns is halved.
-- If jobs of other shards wait, those of this shard leave every other such turn to them, which come at their estimated
-- time: their own turn is then later than that.
-- After: a `throttled` counts for its path alone, unless one from another path came within its time, at least a minute.
-- Then the limits of the host are halved, at most once a second, and it gets no request before the time it named; each
-- `answered` restores a twentieth. One for its path alone leaves an open circuit open, but the time since when the host
-- has not answered begins again. The given number of consecutive failures opens the circuit, and each failed probe
-- opens it for twice as long as before; failures of requests that were in progress when it opened do not count. An
-- `earlier` ends a row of failures, but does not close the circuit, and restores nothing of the limits.

local rateKey, fetchingKey, heldKey, wakeKey, paceKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local host, token, outcome, pause = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local failureThreshold, openInterval = tonumber(ARGV[5]), tonumber(ARGV[6])
local maximumOpenInterval, duration, requestedPath = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local concurrency, first, reason = tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12] or ''

local us, ms = now()
local state = readHost(rateKey, host)
local known = redis.call('ZREM', fetchingKey, token)
local before = limited(state, failureThreshold, first)
local isFirst = state.heard ~= 1 and outcome ~= 'absent' and outcome ~= 'none'
if isFirst then state.heard = 1 end
-- The first answer raises the threshold: a circuit that is open because of the lower one stays open.
if isFirst and state.failures >= before then
  state.failures = state.failures + limited(state, failureThreshold, first) - before
end
-- The time of a host that has answered begins when its circuit opens. Workers of earlier versions leave it.
if state.heard == 1 and state.failures < limited(state, failureThreshold, first) then state.since = 0 end
-- A request that began before the circuit opened, and has ended after the pause, is no probe.
local isLate = duration > 0 and state.since > 0 and us - duration < state.since * 1000
if state.heard ~= 1 then
  isLate = duration > 0 and state.failures >= before and us - duration < state.open * 1000
end
if outcome == 'answered' then
  state.failures, state.open, state.since = 0, 0, 0
  state.factor = math.min(1, state.factor + 0.05)
  if duration > 0 then state.mean = state.mean + (duration - state.mean) / 8 end
elseif outcome == 'earlier' then
  if state.open == 0 then state.failures, state.since = 0, 0 end
elseif outcome == 'throttled' then
  if state.path ~= requestedPath and state.counts > ms then
    state.failures, state.open, state.since = 0, 0, 0
    state.blocked = math.max(state.blocked, ms + pause)
    if ms - state.halved >= 1000 then
      state.factor = math.max(1 / 64, state.factor / 2)
      state.halved = ms
    end
  elseif state.since > 0 then
    state.since = ms
  end
  state.path, state.counts = requestedPath, ms + math.max(pause, 60000)
elseif (outcome == 'failed' or outcome == 'absent') and state.open <= ms and not isLate then
  -- A row of failures without an open circuit that began long ago was another outage.
  if state.heard ~= 1 and state.since > 0 and state.failures < before and ms - state.since > maximumOpenInterval then
    state.failures, state.since = 0, 0
  end
  state.failures = math.min(state.failures + 1, 1000)
  -- A request that took long without an answer held its slot, too.
  if duration > state.mean then state.mean = state.mean + (duration - state.mean) / 8 end
  local over = state.failures - limited(state, failureThreshold, first)
  if state.since == 0 and (over >= 0 or state.heard ~= 1) then state.since = ms end
  if over >= 0 then
    local interval = openInterval * 2 ^ math.min(over, 20)
    -- Requests without a byte for long have waited already. A probe would take as long: its job may be the last one of
    -- a batch, so probes take no more than a fifth of the time.
    if state.heard == 0 then
      local silence = math.floor(duration / 1000)
      state.since = math.min(state.since, ms - silence)
      interval = math.max(interval, 4 * silence)
    end
    state.open = ms + math.min(maximumOpenInterval, interval)
  end
end
local isFailure = outcome == 'failed' or outcome == 'absent'
if isFailure and reason ~= '' then state.last = reason end
local isFree = known == 1 and state.open <= ms and state.blocked <= ms and state.tat <= us
-- The pace is that of the last refusal, such as one during an outage. While the host answers and most of its slots are
-- free, nobody is refused: so the pace doubles with each answer, until half of the slots are taken, or a refusal sets
-- it anew.
if isFree and (outcome == 'answered' or outcome == 'earlier') and state.failures == 0 then
  local limit = math.max(1, math.floor(concurrency * state.factor))
  local pace = tonumber(redis.call('HGET', paceKey, host) or '0') or 0
  if pace > 1000 and 2 * (redis.call('ZCARD', fetchingKey) + 1) < limit then
    redis.call('HSET', paceKey, host, math.max(1000, math.floor(pace / 2)))
  end
end
local yields = isFree and state.others == 1
if isFree then state.others = yields and 2 or math.max(state.others - 2, 0) end
storeHost(rateKey, host, state)
if yields then
  local limit = math.max(1, math.floor(concurrency * state.factor))
  -- 50 ms more, in which a leader sweeps and a worker claims.
  redis.call('ZADD', heldKey, 'XX', 'GT', ms + math.ceil(state.mean / limit / 1000) + 50, host)
elseif isFree and redis.call('ZADD', heldKey, 'XX', 'LT', 'CH', ms, host) == 1 then
  redis.call('LPUSH', wakeKey, '1')
  redis.call('LTRIM', wakeKey, 0, 255)
end
local down = isFailure and state.since > 0 and ms - state.since or 0
return {known, down, state.heard == 1 and 1 or 0, math.max(0, state.open - ms)}
