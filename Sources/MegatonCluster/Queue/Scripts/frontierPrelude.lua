-- frontierPrelude: functions about jobs that wait for a time or for their host. It uses `queuePrelude`, and reads no
-- KEYS and ARGV of its own.

-- The frontier: jobs that wait until their host takes another request. It has five keys: `holding`, a sorted set with
-- the jobs of all hosts, all with the score 0, as `<host>\0<priority><place>\0<id>` · `held`, a sorted set: host to
-- the ms of its next turn · `pace`, a hash: host to the µs from one turn to the next, -1 if the host was given up, and
-- `<host>\0` to the credits of its priorities (`turnOf`) · `heldbytes`, a hash with the `bytes` of JSON of the jobs in
-- `holding` and `delay`, and the sources of the packs among them beyond one for each (`packed`) · and `body`.
-- `isEmpty` is true if the caller knows that no host holds jobs.
local function openFrontier(holdingKey, heldKey, paceKey, heldBytesKey, bodyKey, isEmpty)
  return {
    holding = holdingKey, held = heldKey, pace = paceKey, bytes = heldBytesKey, body = bodyKey, turns = {},
    number = 0, isEmpty = isEmpty or redis.call('EXISTS', heldKey) == 0
  }
end

-- The entry of a held job in `holding`. Its place is `a` or `b`, for jobs that return and for others, and 18 digits.
local function holdingEntry(host, priority, place, id)
  return host .. '\0' .. priority .. place .. '\0' .. id
end

-- The priority, the place and the id of an entry in `holding` of this host.
local function readEntry(host, entry)
  local at = #host + 2
  return string.sub(entry, at, at), string.sub(entry, at + 1, at + 19), string.sub(entry, at + 21)
end

-- The ms of the next turn of a host, 0 if it holds no jobs.
local function nextTurn(frontier, host)
  if frontier.isEmpty or host == '' then return 0 end
  local turn = frontier.turns[host]
  if not turn then
    turn = tonumber(redis.call('ZSCORE', frontier.held, host) or '0')
    frontier.turns[host] = turn
  end
  return turn
end

-- Adds the bytes of jobs to those of the jobs that wait, or subtracts them with the sign -1; and the number of their
-- sources beyond one for each.
local function countHeldBytes(frontier, ids, sign, packed)
  local bytes = 0
  for _, id in ipairs(ids) do bytes = bytes + redis.call('HSTRLEN', frontier.body, id) end
  addToGauge(frontier.bytes, 'bytes', sign * bytes)
  addToGauge(frontier.bytes, 'packed', sign * packed)
end

-- Holds jobs {id, a, s, p, b, f, d, h}, in this order, behind those of their hosts, or in front with the class `a`. The
-- caller has removed them from where they were; their bodies are there.
local function hold(frontier, metaKey, jobs, class, t)
  local entries, metas, ids, packed = {}, {}, {}, 0
  for _, j in ipairs(jobs) do
    local host = hostName(j.h)
    frontier.number = frontier.number + 1
    local place = class .. string.format('%013.0f%05d', t, frontier.number)
    entries[#entries + 1] = 0
    entries[#entries + 1] = holdingEntry(host, j.p, place, j.id)
    metas[#metas + 1] = j.id
    metas[#metas + 1] = packMeta(j.a, j.s, '#' .. place, j.p, j.b, j.f, j.d, host)
    ids[#ids + 1] = j.id
    packed = packed + sourceCount(j.d) - 1
  end
  callForAll('ZADD', frontier.holding, entries)
  callForAll('HSET', metaKey, metas)
  countHeldBytes(frontier, ids, 1, packed)
end

-- Makes held jobs ready by their entries, and lets them pass. Entries to which no job belongs any more are dropped.
-- Returns the ids of the jobs, and the number of their sources.
local function releaseHeld(frontier, metaKey, readyKeys, host, entries, goesLast, t)
  if #entries == 0 then return {}, 0 end
  local ids, places = {}, {}
  for i, entry in ipairs(entries) do
    local _, place, id = readEntry(host, entry)
    ids[i], places[i] = id, place
  end
  local metas, passed, released, lists = redis.call('HMGET', metaKey, unpack(ids)), {}, {}, {{}, {}, {}}
  local packed = 0
  for i = #ids, 1, -1 do
    local a, s, w, p, b, f, d = unpackMeta(metas[i] or '')
    if a and w == '#' .. places[i] and lists[tonumber(p)] then
      passed[#passed + 1] = ids[i]
      passed[#passed + 1] = packMeta(a, s, readyMark(t), p, b, f, d, host .. '!')
      released[#released + 1] = ids[i]
      packed = packed + sourceCount(d) - 1
      local list = lists[tonumber(p)]
      list[#list + 1] = ids[i]
    end
  end
  callForAll('ZREM', frontier.holding, entries)
  callForAll('HSET', metaKey, passed)
  for k = 1, 3 do callForAll(goesLast and 'LPUSH' or 'RPUSH', readyKeys[k], lists[k]) end
  countHeldBytes(frontier, released, -1, packed)
  return released, #released + packed
end

-- Unfinished jobs of given-up hosts that were made ready: their ids, the number of their sources, how many of them run,
-- and the ms from which more may follow while other jobs run (`roomForGivenUp`). A key of their own has that time and
-- the ids as a JSON array, at most 256, for a minute after the last of them was added.
local function openGivenUp(givenUpKey, metaKey)
  local read, noted = pcall(cjson.decode, redis.call('GET', givenUpKey) or '[]')
  noted = read and type(noted) == 'table' and noted or {}
  local givenUp, ids = {ids = {}, sources = 0, running = 0, next = type(noted[1]) == 'number' and noted[1] or 0}, {}
  for _, id in ipairs(noted) do
    if type(id) == 'string' and #ids < 256 then ids[#ids + 1] = id end
  end
  if #ids == 0 then return givenUp end
  for i, m in ipairs(redis.call('HMGET', metaKey, unpack(ids))) do
    local a, _, w, _, _, _, d, h = unpackMeta(m or '')
    local runs = a and w ~= '' and not string.find(w, '^[#@]')
    if runs or a and string.sub(h, -1) == '!' then
      givenUp.ids[#givenUp.ids + 1] = ids[i]
      givenUp.sources = givenUp.sources + sourceCount(d)
      if runs then givenUp.running = givenUp.running + 1 end
    end
  end
  return givenUp
end

-- Sources of given-up hosts that a place ends in a second while other jobs run.
local givenUpRate = 2

-- How many more jobs of given-up hosts may be made ready. They end without a request, but each takes a place and
-- processor time. Their sources are as many as an eighth of the places, or as half of the places that other jobs leave;
-- a pack may have more than that if it is the only one. They are taken in steps, as the size of a pack is known only
-- afterwards. They end within milliseconds, one after the other: while other jobs run, their number in a second is
-- limited too, or they would take all processors from these (`givenUpRate`).
local function roomForGivenUp(givenUp, places, leased, t)
  local count, room = #givenUp.ids, 1
  if count > 0 then
    local limit = math.max(places / 8, (places - (leased - givenUp.running)) / 2)
    room = math.min(count, math.floor((limit - givenUp.sources) * count / givenUp.sources))
  end
  if leased > givenUp.running then
    local step = 1000 / (givenUpRate * math.max(places, 1))
    -- A damaged note must not stop this for longer than the note lives.
    givenUp.next = math.min(math.max(givenUp.next, t - math.max(step, 100)), t + 60000)
    room = math.min(room, math.floor((t - givenUp.next) / step))
  else
    givenUp.next = 0
  end
  return math.max(math.min(room, 256 - count), 0)
end

-- Notes that jobs of given-up hosts were made ready.
local function addGivenUp(givenUp, ids, sources, places)
  for _, id in ipairs(ids) do givenUp.ids[#givenUp.ids + 1] = id end
  givenUp.sources = givenUp.sources + sources
  if givenUp.next > 0 then givenUp.next = givenUp.next + 1000 * sources / (givenUpRate * math.max(places, 1)) end
end

-- The entries of held jobs that have a turn of their host: at most `number`, the oldest of each priority. If the host
-- holds jobs of several priorities, these share its turns by the weights 16, 4 and 1 (smooth weighted round robin, as
-- in `claim`), so that none starves.
local function turnOf(frontier, host, number)
  local function range(from, to, count)
    return redis.call('ZRANGEBYLEX', frontier.holding, from, to, 'LIMIT', 0, count)
  end
  local first, last = '[' .. host .. '\0', '(' .. host .. '\1'
  local all = range(first, last, number)
  if #all < number then return all end
  local final = redis.call('ZRANGE', frontier.holding, last, first, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  if not final or readEntry(host, final) == readEntry(host, all[1]) then return all end
  local credits, field = {}, host .. '\0'
  for text in string.gmatch(redis.call('HGET', frontier.pace, field) or '', '-?%d+') do
    credits[#credits + 1] = tonumber(text)
  end
  local open, sum, taken = {}, 0, {}
  for k, weight in ipairs({16, 4, 1}) do
    local list = range(first .. k, '(' .. host .. '\0' .. k + 1, number)
    credits[k] = credits[k] or 0
    if #list > 0 then
      open[#open + 1] = {k = k, weight = weight, list = list, next = 1}
      sum = sum + weight
    end
  end
  while #taken < number and #open > 0 do
    local best = 1
    for i, o in ipairs(open) do
      credits[o.k] = credits[o.k] + o.weight
      if credits[o.k] > credits[open[best].k] then best = i end
    end
    local o = open[best]
    credits[o.k] = credits[o.k] - sum
    taken[#taken + 1] = o.list[o.next]
    o.next = o.next + 1
    if o.next > #o.list then
      sum = sum - o.weight
      table.remove(open, best)
    end
  end
  redis.call('HSET', frontier.pace, field, table.concat(credits, ' '))
  return taken
end

-- Makes jobs ready whose time has come: delayed ones that are due, the earliest in front, and of each host whose turn
-- it is as many as fit into the time since, at most 256 (`turnOf`). A host that has no jobs left is forgotten. Of each
-- kind at most `limit`. Of hosts that were given up only some at a time (`roomForGivenUp`), behind all others: more
-- would fill the window, so that no intake is read until they have failed, and the places. `fleet` has the key of their
-- ids (`givenUp`), and a function `count` that returns the number of places for this shard and the number of leases.
-- If `room` is given, the delayed and held jobs are no more than that together, those of given-up hosts apart.
-- Returns the number of jobs that were made ready.
local function tick(frontier, delayKey, metaKey, readyKeys, t, limit, fleet, room)
  local due = redis.call('ZRANGEBYSCORE', delayKey, '-inf', t, 'LIMIT', 0, math.min(limit, room or limit))
  local made, packed, lists, left = 0, 0, {{}, {}, {}}, room and room - #due or limit
  if #due > 0 then
    callForAll('ZREM', delayKey, due)
    for first = #due, 1, -1000 do
      local page = {}
      for i = first, math.max(first - 999, 1), -1 do page[#page + 1] = due[i] end
      for i, m in ipairs(redis.call('HMGET', metaKey, unpack(page))) do
        local _, _, _, p, _, _, d = unpackMeta(m or '')
        local list = p and lists[tonumber(p)]
        packed = packed + sourceCount(d or '') - 1
        if list then
          list[#list + 1] = page[i]
          made = made + 1
        end
      end
    end
    countHeldBytes(frontier, due, -1, packed)
    left = left - packed
    for k = 1, 3 do callForAll('RPUSH', readyKeys[k], lists[k]) end
  end
  if frontier.isEmpty then
    -- Without `held`, which an operator has deleted, the jobs of `holding` would wait for ever.
    local first = redis.call('ZRANGE', frontier.holding, 0, 0)[1]
    if first then redis.call('ZADD', frontier.held, t, string.match(first, '^[^%z]*')) end
  end
  -- `taken` also counts entries to which no job belongs.
  local released, taken, givenUp, places, leased, noted = 0, 0, nil, nil, nil, 0
  -- Releases jobs of a host that was given up. Returns whether it has no others, and whether the limit ended this.
  local function release(host)
    if not givenUp then
      givenUp = openGivenUp(fleet.givenUp, metaKey)
      places, leased = fleet.count()
    end
    while true do
      local further = roomForGivenUp(givenUp, places, leased, t)
      local number = math.min(further, limit - taken)
      if number == 0 then return false, further > 0 end
      local entries = turnOf(frontier, host, number)
      local ids, sources = releaseHeld(frontier, metaKey, readyKeys, host, entries, true, t)
      addGivenUp(givenUp, ids, sources, places)
      released, taken, noted = released + #ids, taken + #entries, noted + #ids
      if #entries < number then return true end
    end
  end
  local waiting = 0
  local hosts = redis.call('ZRANGEBYSCORE', frontier.held, '-inf', t, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #hosts, 2 do
    if taken >= limit then break end
    local host, turn = hosts[i], tonumber(hosts[i + 1])
    local pace = tonumber(redis.call('HGET', frontier.pace, host) or '0') or 0
    local step = math.max(pace / 1000, 1)
    local number = math.min(256, 1 + math.floor(math.min(t - turn, 1000) / step), limit - taken, left)
    local isEmpty, goesOn
    -- Otherwise its jobs wait for places, and keep their turn.
    local hasRoom = pace < 0 or number > 0
    if pace < 0 then
      isEmpty, goesOn = release(host)
    elseif hasRoom then
      local entries = turnOf(frontier, host, number)
      local ids, sources = releaseHeld(frontier, metaKey, readyKeys, host, entries, false, t)
      released, taken = released + #ids, taken + #entries
      left = left - (room and math.max(sources, #entries) or #entries)
      isEmpty = #entries < number
    end
    if isEmpty then
      redis.call('ZREM', frontier.held, host)
      redis.call('HDEL', frontier.pace, host, host .. '\0')
      frontier.turns[host] = 0
    elseif hasRoom then
      local following = t - turn > 1000 and t + step or turn + number * step
      if pace < 0 then
        -- Until then some of the others have ended. The more hosts wait for that, the less often each is looked at.
        waiting = waiting + 1
        following = goesOn and t or t + 10 * waiting
      end
      redis.call('ZADD', frontier.held, following, host)
      frontier.turns[host] = following
    end
  end
  if noted > 0 then
    -- Not rounded down: of a large fleet, a millisecond has several sources.
    table.insert(givenUp.ids, 1, givenUp.next)
    redis.call('SET', fleet.givenUp, cjson.encode(givenUp.ids), 'PX', 60000)
  end
  -- A repair may have removed jobs without their bytes: they must not stay counted for ever.
  if redis.call('EXISTS', frontier.holding, delayKey) == 0 then redis.call('UNLINK', frontier.bytes) end
  return made + released
end
