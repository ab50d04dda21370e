#!lua flags=allow-oom
-- sweep: makes jobs ready again whose lease has run out or whose worker is known to be dead, counts process deaths for
-- the sources that dead workers held, and forgets workers that have been silent for long.
--
-- KEYS 1 lease · 2 meta · 3-5 ready: high, normal, bulk · 6 wake · 7 sweepgate · 8 stat · 9 workers · 10 workerinfo ·
--      11 crashes · 12 suspects · 13 isolating · 14 delay · 15 holding · 16 held · 17 pace · 18 heldbytes · 19 body ·
--      20 places · 21 givenup · 22 control
-- ARGV 1 number of jobs behind which no other worker's are begun · 2 gate, ms · 3 silence after which a worker is
--      forgotten, ms · 4 `1` to sweep even if another process has just done so · 5 how long a source is suspected, ms ·
--      6… names of workers whose processes have ended
-- Returns {how many were swept, -1 if another process swept a moment ago; ms until the next time of a job or a host, -1
--      if there is none, 0 if leases may be left that have run out}.
-- After: each swept job has one more stall and goes first, or waits in `suspects`. Jobs whose time has come are ready
-- (`tick`), and workers are woken for them: an idle fleet need not look for them. They are no more than the places that
-- are free beyond the ready jobs: further ones would go in front of the jobs of all other batches, and fill the window
-- until no intake is read. A worker that has jobs takes them with its claims. Jobs with long fetches have leases, and
-- have left their places: so if no place seems to be free, one worker is woken, whose claim finds out. While the queue
-- is paused they stay where they are.
-- A worker is dead if it was named, or if one of its leases has run out and it has missed two renewals. A time of more
-- than 3 s in which no process swept is not silence of a worker: Redis was away, or all processes were. But if all
-- workers that have renewed since are new, the earlier ones did not survive that time, and it counts. All leases of a
-- dead worker then end, so that everything it held is seen at one moment. A worker that still renews has lost the
-- reply to a claim, and no source is suspected because of that. If all jobs of a dead worker name one source, that
-- source has one more death. Otherwise any of the sources may be the cause, also if the worker may have had jobs in
-- other shards: each counts one death, but no more than two, which makes it a suspect that runs by itself. The score in
-- `crashes` is eight times the expiry time, plus the deaths, at most seven.
-- One call reads at most 20,000 leases, about 1 MiB: those that may be of a dead worker, which end one lease and two
-- renewals after its last sign at the latest. That is all of them only for a worker that does not say how long its
-- leases are. Dead workers are swept whole, and those that no longer fit into the number of jobs are left to the next
-- call; those that were named are never left, and are forgotten unless there are more leases than are read.

local leaseKey, metaKey, wakeKey, sweepGateKey, statKey = KEYS[1], KEYS[2], KEYS[6], KEYS[7], KEYS[8]
local workersKey, workerInfoKey, crashesKey, suspectsKey = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local isolatingKey, delayKey, holdingKey, heldKey, paceKey = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local heldBytesKey, bodyKey, placesKey, givenUpKey, controlKey = KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22]
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}
local limit, gate, maximumSilence, isForced = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local suspicion, firstName = tonumber(ARGV[5]), 6

if isForced == '1' then
  redis.call('SET', sweepGateKey, '1', 'PX', gate)
elseif not redis.call('SET', sweepGateKey, '1', 'NX', 'PX', gate) then
  return {-1, -1}
end
-- Dead workers, and the descriptions of those that are swept.
local t, dead, infos = now(), {}, {}
for i = firstName, #ARGV do dead[ARGV[i]] = true end
-- The last time in which no process swept.
local v = redis.call('HMGET', statKey, 'swept', 'away_from', 'away_until')
local last, awayFrom, awayUntil = tonumber(v[1]) or t, tonumber(v[2]) or 0, tonumber(v[3]) or 0
-- Whether all of the first 100 workers that have renewed since began after that time; false if none has renewed.
local function areNew(names)
  if #names == 0 then return false end
  for _, info in ipairs(redis.call('HMGET', workerInfoKey, unpack(names))) do
    local started = tonumber(string.match(info or '', '"started":(%d+)'))
    if not started or started * 1000 <= last then return false end
  end
  return true
end
if t - last > 3000 and
   not areNew(redis.call('ZRANGEBYSCORE', workersKey, string.format('(%.0f', last), '+inf', 'LIMIT', 0, 100)) then
  awayFrom, awayUntil = last, t
  redis.call('HSET', statKey, 'away_from', string.format('%.0f', last), 'away_until', string.format('%.0f', t))
end
redis.call('HSET', statKey, 'swept', string.format('%.0f', t))
local function isDead(worker)
  if worker == '' then return false end
  if dead[worker] == nil then
    local sign = redis.call('ZSCORE', workersKey, worker)
    local renewal = string.match(redis.call('HGET', workerInfoKey, worker) or '', '"renewal":([%d.]+)')
    local silence = t - (tonumber(sign) or 0)
    -- The clock of Redis may have been turned back since.
    silence = silence - math.max(math.min(awayUntil, t) - math.max(tonumber(sign) or 0, awayFrom), 0)
    dead[worker] = not (sign and renewal and silence < 2000 * tonumber(renewal))
  end
  return dead[worker]
end
local swept, lost = {}, {}
local function sweep(id, m)
  local a, s, w, p, b, f, d, h = unpackMeta(m)
  if a then swept[#swept + 1] = {id = id, a = a, s = s, w = w, p = p, b = b, f = f, d = d, h = h} end
  return a
end
-- Calls a function with each id and its meta.
local function forMetas(ids, body)
  for i = 1, #ids, 1000 do
    local metas = redis.call('HMGET', metaKey, unpack(ids, i, math.min(i + 999, #ids)))
    for k, m in ipairs(metas) do body(ids[i + k - 1], m or '') end
  end
end
local expired = redis.call('ZRANGEBYSCORE', leaseKey, '-inf', t, 'LIMIT', 0, limit)
-- Dead workers, and ids and metas of the jobs that each holds. Other workers are left if these fill a call.
local deadNames, held, places, horizon, mayBeLeft = {}, {}, 0, t, #expired == limit
local function addDead(worker, wasNamed)
  if held[worker] then return end
  if places >= limit and not wasNamed then
    mayBeLeft = true
    return
  end
  deadNames[#deadNames + 1], held[worker] = worker, {}
  infos[worker] = infos[worker] or redis.call('HGET', workerInfoKey, worker) or ''
  local info = infos[worker]
  places = places + math.max(tonumber(string.match(info, '"concurrency":(%d+)')) or 1, 1)
  local sign = tonumber(redis.call('ZSCORE', workersKey, worker) or '')
  local renewal = tonumber(string.match(info, '"renewal":([%d.]+)'))
  local lease = tonumber(string.match(info, '"lease":([%d.]+)'))
  local isKnown = sign and renewal and lease
  horizon = math.max(horizon, isKnown and sign + 1000 * (2 * renewal + lease) or math.huge)
end
for i = firstName, #ARGV do addDead(ARGV[i], true) end
forMetas(expired, function(id, m)
  local a, _, w = unpackMeta(m)
  if not a then
    lost[#lost + 1] = id
  elseif isDead(w) then
    addDead(w)
  else
    sweep(id, m)
  end
end)
if #deadNames > 0 then
  local to = horizon == math.huge and '+inf' or string.format('%.0f', horizon)
  local leases = redis.call('ZRANGEBYSCORE', leaseKey, '-inf', to, 'LIMIT', 0, 20000)
  -- Leases beyond them run out, and need the description of their worker then.
  if #leases < 20000 then
    for i = firstName, #ARGV do
      redis.call('ZREM', workersKey, ARGV[i])
      redis.call('HDEL', workerInfoKey, ARGV[i])
    end
  end
  forMetas(leases, function(id, m)
    local w = string.match(m, '^%d+%+?%d*|%d+|([^|]*)|')
    local jobs = w and held[w]
    if jobs then
      jobs[#jobs + 1] = id
      jobs[#jobs + 1] = m
    end
  end)
end
for k, worker in ipairs(deadNames) do
  if #swept >= limit and k > #ARGV - firstName + 1 then
    mayBeLeft = true
    break
  end
  local jobs = held[worker]
  for i = 1, #jobs, 2 do sweep(jobs[i], jobs[i + 1]) end
end
-- For each dead worker, the sources of the jobs that it held.
local digests, holdings = {}, {}
for _, j in ipairs(swept) do
  if string.sub(j.d, 1, 1) == '*' then
    -- A pack: the worker that claims it next splits it, so that a source that kills again is found. Any of its sources
    -- may be the cause, so that no other source of the worker is alone.
    if dead[j.w] then
      holdings[j.w] = holdings[j.w] or {count = 0, digests = {}}
      holdings[j.w].count = holdings[j.w].count + 2
    end
  elseif j.d ~= '' then
    digests[#digests + 1] = j.d
    if dead[j.w] then
      holdings[j.w] = holdings[j.w] or {count = 0, digests = {}}
      if not holdings[j.w].digests[j.d] then holdings[j.w].count = holdings[j.w].count + 1 end
      holdings[j.w].digests[j.d] = true
    end
  end
end
local counts = deathCounts(crashesKey, digests, t)
local function suspect(d, isAlone)
  local count = counts[d] or 0
  counts[d] = isAlone and math.min(count + 1, 7) or math.max(count, math.min(count + 1, 2))
  redis.call('ZADD', crashesKey, string.format('%.0f', (t + suspicion) * 8 + counts[d]), d)
  redis.call('ZREM', isolatingKey, d)
end
-- Whether a worker may have had jobs in other shards. One for suspects alone has a single job in all of them.
local function hasOtherShards(worker)
  local info = infos[worker]
  return string.find(info, '"shards":', 1, true) and not string.find(info, '"concurrency":0[^%d]')
end
for worker, holding in pairs(holdings) do
  local isAlone = holding.count == 1 and not hasOtherShards(worker)
  for d in pairs(holding.digests) do suspect(d, isAlone) end
end
callForAll('ZREM', leaseKey, lost)
local ids, metas, suspects, lists = {}, {}, {}, {{}, {}, {}}
for _, j in ipairs(swept) do
  ids[#ids + 1] = j.id
  metas[#metas + 1] = j.id
  metas[#metas + 1] = packMeta(j.a, j.s + 1, readyMark(t), j.p, j.b, j.f, j.d, hostName(j.h))
  local list = counts[j.d] == 2 and suspects or lists[tonumber(j.p)]
  list[#list + 1] = j.id
end
callForAll('ZREM', leaseKey, ids)
callForAll('HSET', metaKey, metas)
callForAll('LPUSH', suspectsKey, suspects)
for k = 1, 3 do callForAll('RPUSH', readyKeys[k], lists[k]) end
if #swept > 0 then redis.call('HINCRBY', statKey, 'stalled', #swept) end
local frontier = openFrontier(holdingKey, heldKey, paceKey, heldBytesKey, bodyKey)
local fleet = {givenUp = givenUpKey}
local function allPlaces()
  -- The lease of the worker that has renewed last stands for those of all.
  local latest = redis.call('ZRANGE', workersKey, -1, -1)[1]
  local info = latest and redis.call('HGET', workerInfoKey, latest) or ''
  local lease = 1000 * (tonumber(string.match(info, '"lease":([%d.]+)')) or 15)
  return countPlaces(placesKey, workersKey, workerInfoKey, t, lease)
end
function fleet.count()
  return placesOfShard(allPlaces(), workersKey, workerInfoKey), redis.call('ZCARD', leaseKey)
end
local function freePlaces()
  local ready = 0
  for k = 1, 3 do ready = ready + redis.call('LLEN', readyKeys[k]) end
  -- A pack has its sources in the window, and takes places beyond its own.
  if ready > 0 and (tonumber(redis.call('HGET', heldBytesKey, 'packed')) or 0) > 0 then return 0 end
  -- Of several shards each counts all places: together they would fill them several times, in front of fresh jobs.
  local own = math.ceil(placesOfShard(allPlaces(), workersKey, workerInfoKey))
  -- Without a worker, a few: the claim of the first one takes the others.
  if own == 0 then own = 16 end
  return math.max(own - redis.call('ZCARD', leaseKey) - ready, 0)
end
-- Whether a job or a host is due for which there was no room.
local function isOverdue()
  for _, key in ipairs({delayKey, heldKey}) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first and tonumber(first) <= t then return true end
  end
  return false
end
local made, wakes = 0, false
if redis.call('HGET', controlKey, 'paused') ~= '1' then
  local room = redis.call('EXISTS', delayKey, holdingKey) > 0 and freePlaces() or nil
  made = tick(frontier, delayKey, metaKey, readyKeys, t, math.min(limit, 500), fleet, room)
  wakes = room == 0 and made == 0 and isOverdue() and redis.call('LLEN', wakeKey) == 0
end
local tokens = math.min(#swept + made + (wakes and 1 or 0), 256)
for _ = 1, tokens do redis.call('LPUSH', wakeKey, '1') end
if tokens > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
redis.call('ZREMRANGEBYSCORE', crashesKey, '-inf', string.format('%.0f', t * 8))
local sources = redis.call('ZCARD', crashesKey)
if sources > 100000 then redis.call('ZREMRANGEBYRANK', crashesKey, 0, sources - 100001) end
local oldest = t - maximumSilence
if oldest < awayUntil then oldest = oldest - (awayUntil - awayFrom) end
local silent = redis.call('ZRANGEBYSCORE', workersKey, '-inf', string.format('%.0f', oldest), 'LIMIT', 0, 1000)
for _, worker in ipairs(silent) do
  redis.call('ZREM', workersKey, worker)
  redis.call('HDEL', workerInfoKey, worker)
end
local following = mayBeLeft and 0 or -1
for _, key in ipairs({delayKey, heldKey}) do
  local first = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', t), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local left = first[2] and math.ceil(tonumber(first[2]) - t)
  if left and (following < 0 or left < following) then following = left end
end
return {#swept, following}
