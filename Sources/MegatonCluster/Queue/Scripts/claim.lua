#!lua flags=allow-oom
-- claim: claims jobs. Each receives its lease and its attempt number in the same step, so that no job is without a
-- lease in between.
--
-- KEYS 1-3 ready: high, normal, bulk · 4 lease · 5 delay · 6 body · 7 meta · 8 control · 9 cancelled · 10 workers ·
--      11 workerinfo · 12 crashes · 13 suspects · 14 isolating · 15 places · 16 holding · 17 held · 18 pace ·
--      19 heldbytes · 20 credit · 21 wake · 22 givenup
-- ARGV 1 worker · 2 lease, ms · 3 maximum number of jobs · 4 number of jobs that it works on · 5 its places ·
--      6 `1` to ignore its share · 7 suspects: `none`, `ask` (for a process of their own), `one` (among the others),
--      `only`
-- Returns a list: number of jobs that were left to other workers · `1` if the caller is to start a process for
--      suspects · `1` if the queue has only running jobs now, so that further claims find nothing until a token
--      announces a job; `2` if it has only few ready jobs beside them, and a token for the next claim · then for
--      each job {id, attempt, stalls, json, batch, `1` if the batch was cancelled, number of free attempts, deaths
--      its source is suspected of, 0 or the bytes of a JSON that is too large to be handed out and is left out, 0 or
--      the number of sources of a pack, ms for which it was ready or -1 if that is not known}.
-- After: each of the jobs is in `lease` and in none of the ready lists, and its attempt number is one higher. Every
-- later write about the job must carry that number: it is the fencing token. Jobs whose time has come (`tick`) go
-- first, but of each kind only up to half of the requested number, so that fresh jobs get their turn.
-- A job whose host has its next turn later is held instead, unless its host has let it pass. One call moves about 1,024
-- jobs to `holding` and `suspects`; then it counts as one that left jobs to other workers, so that the caller asks
-- again.
-- A claim that fills its worker, or its reply, and leaves jobs behind pushes a token if there is none: the tokens are
-- fewer than the ready jobs, and another worker may sleep. The same if `tick` has reached its bound: more may be due.
-- A claim that takes the last ready job, while none is suspect, delayed or held, deletes all tokens: a worker that
-- waits for one finds none, and each later ready job has its own.
-- If several of the lists have jobs, `high`, `normal` and `bulk` share by the weights 16, 4 and 1 (smooth weighted
-- round robin, as in `stage`), so that none starves.
--
-- If fewer jobs are ready than places are free, a worker claims no more than its share by places, so that the last jobs
-- of a batch do not all go to one worker. It asks again soon, and then ignores its share.
-- A ready job whose source two processes have died of moves to `suspects`, unless its batch was cancelled. After three
-- deaths, the job is handed out like any other, so that the worker fails it. No two jobs of one suspected source run at
-- a time. The caller is asked for a process only if a suspect waits whose source is not running: otherwise the process
-- would find nothing to do.
-- A reply has at most 1 MiB of JSON, or one job: a larger reply could not be read.

local leaseKey, delayKey, bodyKey, metaKey, controlKey = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local cancelledKey, workersKey, workerInfoKey, crashesKey = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local suspectsKey, isolatingKey, placesKey, holdingKey = KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local heldKey, paceKey, heldBytesKey, creditKey, wakeKey = KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local givenUpKey = KEYS[22]
local readyKeys = {KEYS[1], KEYS[2], KEYS[3]}
local worker, leaseTime, limit, held = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local places, ignoresShare, mode = tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- An idle fleet costs one read for each claim: there is nothing to hand out, to make ready or to repair.
local existing = redis.call('EXISTS', delayKey, suspectsKey, holdingKey, heldKey, heldBytesKey, crashesKey,
                            unpack(readyKeys))
if existing == 0 then return {0, 0, 1} end
-- Most other queues have nothing but the list of normal jobs.
local lengths = {0, redis.call('LLEN', readyKeys[2]), 0}
local isSimple = existing == 1 and lengths[2] > 0
local t = now()
local reply, bytes, known = {0, 0, 0}, 0, {}
local isFull, passed, maximumPassed, want = false, 0, 1024, 0
-- Nil in a simple queue: `countDeaths` returns the number of deaths for each digest, `divert` moves a job elsewhere
-- instead of claiming it and returns whether it did, and `endPage` is called after the jobs of a page were moved.
local countDeaths, divert, endPage
local function allPlaces() return countPlaces(placesKey, workersKey, workerInfoKey, t, leaseTime) end
local leaseEnd = string.format('%.0f', t + leaseTime)
-- Pushes a token if there is none. The leases of this call are written, and a reply is to follow in any case: a key of
-- another type is replaced.
local function announce()
  local count = redis.pcall('LLEN', wakeKey)
  if type(count) ~= 'number' then count = redis.call('DEL', wakeKey) - 1 end
  if count == 0 then redis.call('LPUSH', wakeKey, '1') end
end
local function read(ids)
  local metas = redis.call('HMGET', metaKey, unpack(ids))
  local jobs, digests = {}, {}
  for i, id in ipairs(ids) do
    local a, s, w, p, b, f, d, h = unpackMeta(metas[i] or '')
    if a and not known[id] then
      known[id] = true
      local isCancelled = b ~= '' and redis.call('SISMEMBER', cancelledKey, b) == 1
      jobs[#jobs + 1] = {id = id, a = a + 1, s = s, p = p, b = b, f = f, d = d, h = h, since = readySince(w),
                         isCancelled = isCancelled, deaths = 0}
      if countDeaths and d ~= '' then digests[#digests + 1] = d end
    end
  end
  if countDeaths then
    local counts = countDeaths(digests)
    for _, j in ipairs(jobs) do
      j.deaths = counts[j.d] or 0
      j.suspect = j.deaths == 2 and not j.isCancelled
    end
  end
  return jobs
end
local function fits(j)
  j.size = redis.call('HSTRLEN', bodyKey, j.id)
  j.large = j.size > 16777216
  if j.large then return true end
  if bytes > 0 and bytes + j.size > 1048576 then return false end
  bytes = bytes + j.size
  return true
end
local function handOut(jobs)
  local wanted, bodies = {}, {}
  for _, j in ipairs(jobs) do
    if j.size > 0 and not j.large then wanted[#wanted + 1] = j.id end
  end
  if #wanted > 0 then
    for i, body in ipairs(redis.call('HMGET', bodyKey, unpack(wanted))) do bodies[wanted[i]] = body end
  end
  local claimed, leases = {}, {}
  for _, j in ipairs(jobs) do
    if bodies[j.id] or j.large then
      claimed[#claimed + 1] = j.id
      claimed[#claimed + 1] = packMeta(j.a, j.s, worker, j.p, j.b, j.f, j.d, hostName(j.h))
      leases[#leases + 1] = leaseEnd
      leases[#leases + 1] = j.id
      reply[#reply + 1] = {j.id, j.a, j.s, bodies[j.id] or '', j.b, j.isCancelled and '1' or '0', j.f, j.deaths,
                           j.large and j.size or 0, string.sub(j.d, 1, 1) == '*' and sourceCount(j.d) or 0,
                           j.since and math.max(t - j.since, 0) or -1}
    end
  end
  callForAll('HSET', metaKey, claimed)
  callForAll('ZADD', leaseKey, leases)
end
-- Reduces `want` to the share of the worker, which is at least one job.
local function limitToShare(ready)
  want = math.max(math.min(limit, ready), 0)
  if want == 0 or ignoresShare == '1' or held + want <= 1 then return end
  local leased = redis.call('ZCARD', leaseKey)
  local total = math.max(allPlaces(), places)
  if ready < total - leased then
    local share = math.max(math.ceil((ready + leased) * places / total) - held, 0)
    reply[1] = math.max(want - share, 0)
    want = math.min(want, share)
  end
end
local function take(k, number)
  while number > 0 and not isFull do
    local popped = redis.call('RPOP', readyKeys[k], math.min(number, 256))
    if not popped then break end
    local taken, back = {}, {}
    for _, j in ipairs(read(popped)) do
      if not (divert and divert(j)) then
        if isFull or not fits(j) then
          isFull = true
          back[#back + 1] = j.id
        else
          taken[#taken + 1] = j
          number, want = number - 1, want - 1
        end
      end
    end
    for i = #back, 1, -1 do redis.call('RPUSH', readyKeys[k], back[i]) end
    if endPage then endPage() end
    -- Also ids that belong to no job.
    passed = passed + #popped - #taken - #back
    isFull = isFull or passed >= maximumPassed
    handOut(taken)
  end
end
-- Sets the first and the third number of the reply.
--
-- mayHaveMore: whether the ready lists may have jobs for which no token was pushed.
local function endReply(ready, isPlain, mayHaveMore)
  if passed >= maximumPassed then reply[1] = math.max(reply[1], 1) end
  if isPlain and #reply - 3 == ready then
    reply[3] = 1
    if ready > 0 then redis.call('DEL', wakeKey) end
  elseif #reply > 3 and (want == 0 or isFull) then
    if mayHaveMore or redis.call('EXISTS', unpack(readyKeys)) > 0 then announce() end
    -- If more jobs are ready than run, the next claim finds one without a token: to wait for one is another call.
    if isPlain and ready - #reply + 3 <= redis.call('ZCARD', leaseKey) then reply[3] = 2 end
  end
end
if isSimple then
  if redis.call('HGET', controlKey, 'paused') == '1' or mode == 'only' then return reply end
  limitToShare(lengths[2])
  take(2, want)
  endReply(lengths[2], passed == 0, true)
  return reply
end

-- prelude: the functions that only the code below uses are inserted here, at no cost for the calls that end above.
local waits = redis.call('EXISTS', delayKey, holdingKey, heldKey, heldBytesKey) > 0
local frontier = openFrontier(holdingKey, heldKey, paceKey, heldBytesKey, bodyKey, not waits)
local tickLimit, made = math.ceil(limit / 2), 0
-- Half of an odd number is rounded up and down by turns: of a fleet that frees one place at a time, fresh jobs would
-- have none while held ones follow.
if waits and mode ~= 'only' and limit % 2 == 1 and redis.call('EXISTS', unpack(readyKeys)) > 0
    and redis.call('HINCRBY', creditKey, ':half', 1) % 2 == 0 then
  tickLimit = math.floor(limit / 2)
end
local fleet = {givenUp = givenUpKey}
function fleet.count()
  local all = math.max(allPlaces(), places)
  return placesOfShard(all, workersKey, workerInfoKey), redis.call('ZCARD', leaseKey)
end
-- While the queue is paused, due and held jobs stay where they are: in front of `ready` they would fill the window, and
-- after the pause no intake would be read until all have run.
if redis.call('HGET', controlKey, 'paused') == '1' then return reply end
-- A process for suspects claims nothing else, and would leave what it makes ready without a token.
if waits and mode ~= 'only' then made = tick(frontier, delayKey, metaKey, readyKeys, t, tickLimit, fleet) end
function countDeaths(digests) return deathCounts(crashesKey, digests, t) end
-- Suspected sources of which a job waits and none runs.
local open, isOpen = 0, {}
local function mayRun(d)
  if isOpen[d] == nil then
    local expiry = redis.call('ZSCORE', isolatingKey, d)
    isOpen[d] = not expiry or tonumber(expiry) <= t
    if isOpen[d] then open = open + 1 end
  end
  return isOpen[d]
end
local ids = redis.call('RPOP', suspectsKey, 256)
if ids then
  redis.call('ZREMRANGEBYSCORE', isolatingKey, '-inf', t)
  local kept, cleared = {}, 0
  for _, j in ipairs(read(ids)) do
    if not j.suspect then
      known[j.id] = nil
      cleared = cleared + 1
      redis.call('RPUSH', readyKeys[tonumber(j.p)], j.id)
    elseif not mayRun(j.d) then
      -- Behind the others: many jobs of one source must not hide those of another.
      redis.call('LPUSH', suspectsKey, j.id)
    elseif (mode == 'one' or mode == 'only') and #reply == 3 then
      fits(j)
      handOut({j})
      redis.call('ZADD', isolatingKey, leaseEnd, j.d)
      isOpen[j.d], open = false, open - 1
      limit = limit - 1
    else
      kept[#kept + 1] = j.id
    end
  end
  for i = #kept, 1, -1 do redis.call('RPUSH', suspectsKey, kept[i]) end
  if mode == 'only' and cleared > 0 then announce() end
end
if mode == 'only' then return reply end
for k = 1, 3 do lengths[k] = redis.call('LLEN', readyKeys[k]) end
local ready = lengths[1] + lengths[2] + lengths[3]
limitToShare(ready)
-- The jobs of each priority among the next `want`.
local function shares(wanted)
  local lists, number, weights = {}, {0, 0, 0}, {16, 4, 1}
  for k = 1, 3 do
    if lengths[k] > 0 then lists[#lists + 1] = k end
  end
  if #lists == 0 then return number end
  if #lists == 1 then
    number[lists[1]] = wanted
    return number
  end
  local credit, sum = {}, 0
  for i, text in ipairs(redis.call('HMGET', creditKey, ':1', ':2', ':3')) do credit[i] = tonumber(text or '0') end
  for _, k in ipairs(lists) do sum = sum + weights[k] end
  for _ = 1, wanted do
    local best = lists[1]
    for _, k in ipairs(lists) do
      credit[k] = credit[k] + weights[k]
      if credit[k] > credit[best] then best = k end
    end
    credit[best] = credit[best] - sum
    number[best] = number[best] + 1
  end
  redis.call('HSET', creditKey, ':1', credit[1], ':2', credit[2], ':3', credit[3])
  return number
end
local later = {}
function divert(j)
  if j.suspect then
    redis.call('LPUSH', suspectsKey, j.id)
    mayRun(j.d)
    return true
  end
  if j.isCancelled or string.sub(j.h, -1) == '!' or nextTurn(frontier, j.h) <= t then return false end
  -- It was not claimed: its attempt is the one that it had.
  j.a = j.a - 1
  later[#later + 1] = j
  return true
end
function endPage()
  hold(frontier, metaKey, later, 'b', t)
  later = {}
end
if want > 0 then
  for k, number in ipairs(shares(want)) do take(k, number) end
  -- Places that a list could not fill, as some of its jobs were held.
  for k = 1, 3 do take(k, want) end
end
-- A suspect that this call has found is handed out by the next one, which follows soon.
if mode == 'one' and open > 0 and #reply == 3 then reply[1] = math.max(reply[1], 1) end
endReply(ready, not waits and not ids and passed == 0, made >= tickLimit)
if mode == 'ask' and open > 0 then
  local me, starting = 'w:' .. worker, 0
  redis.call('ZREMRANGEBYSCORE', isolatingKey, '-inf', t)
  redis.call('ZREM', isolatingKey, me)
  for _, name in ipairs(redis.call('ZRANGE', isolatingKey, 0, 999)) do
    if string.sub(name, 1, 2) == 'w:' then starting = starting + 1 end
  end
  if open > starting then
    redis.call('ZADD', isolatingKey, t + 5000, me)
    reply[2] = 1
  end
end
return reply
