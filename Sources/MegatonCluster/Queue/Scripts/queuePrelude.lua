-- queuePrelude: functions that the scripts of the queue share. The source of each script gets those that it uses, which
-- `LuaPrelude` finds. It reads no KEYS and ARGV of its own, except in `batchKeys`.

-- Milliseconds of Redis' clock.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The parts of a job's meta: attempt, stalls, worker, priority, batch, free attempts, digest of its source, its host;
-- all nil if it cannot be read, except the last three. The attempt number only grows, as it is the fencing token. Free
-- attempts do not count against the job's limit. The worker of a held job is its place in `holding` (see `hold`), and
-- that of a ready one the time since when it is ready (see `readyMark`). A host that ends with `!` has let the job
-- pass.
local function unpackMeta(text)
  local a, f, s, w, p, d, h, b =
    string.match(text, '^(%d+)%+?(%d*)|(%d+)|([^|]*)|([^|@]*)@?([^|@]*)@?([^|]*)|(.*)$')
  return tonumber(a), tonumber(s), w, p, b, tonumber(f) or 0, d or '', h or ''
end

-- The inverse of `unpackMeta`.
local function packMeta(a, s, w, p, b, f, d, h)
  if f > 0 then a = a .. '+' .. f end
  if d ~= '' or h ~= '' then p = p .. '@' .. d end
  if h ~= '' then p = p .. '@' .. h end
  return a .. '|' .. s .. '|' .. w .. '|' .. p .. '|' .. b
end

-- The worker of a job that becomes ready: the time, ms. A delayed job has none, also when it is due.
local function readyMark(t) return string.format('@%.0f', t) end

-- The time at which a job became ready, ms, from its worker; nil if that is not known.
local function readySince(w) return tonumber(string.match(w, '^@(%d+)$')) end

-- The host of a job as in its meta, without the mark that it has let the job pass.
local function hostName(h)
  return string.sub(h, -1) == '!' and string.sub(h, 1, -2) or h
end

-- The number of sources of a job, from the digest in its meta: that of a pack is `*` and the number.
local function sourceCount(d)
  return tonumber(string.match(d, '^%*(%d+)$')) or 1
end

-- Runs one command for many values, in pieces that fit on Lua's stack, and returns the sum of its replies. A call from
-- Lua costs more than most of the work that it starts.
local function callForAll(command, key, values)
  local count = 0
  for i = 1, #values, 1000 do
    count = count + redis.call(command, key, unpack(values, i, math.min(i + 999, #values)))
  end
  return count
end

-- Adds to a gauge in a hash. It is never below 0, so that a lost count cannot grow.
local function addToGauge(key, field, delta)
  if delta ~= 0 and redis.call('HINCRBY', key, field, delta) < 0 then redis.call('HSET', key, field, 0) end
end

-- The keys batch:<b>, results:<b> and known:<b> of a script's batch, if such triples follow its first `before` keys.
local function batchKeys(before, number)
  local last = before + 3 * number
  return KEYS[last - 2], KEYS[last - 1], KEYS[last]
end

-- The number of process deaths of which each of the sources is suspected, for those that are in `crashes`.
local function deathCounts(crashesKey, digests, t)
  local counts = {}
  if #digests == 0 or redis.call('EXISTS', crashesKey) == 0 then return counts end
  for i = 1, #digests, 1000 do
    local scores = redis.call('ZMSCORE', crashesKey, unpack(digests, i, math.min(i + 999, #digests)))
    for k, score in ipairs(scores) do
      local expiry = score and math.floor(tonumber(score) / 8)
      if expiry and expiry > t then counts[digests[i + k - 1]] = tonumber(score) - 8 * expiry end
    end
  end
  return counts
end

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

-- The places of all living workers: none of a process for suspects, and one of a worker whose description cannot be
-- read. They are counted at most once a second, and whenever the number of workers changes.
local function countPlaces(placesKey, workersKey, workerInfoKey, t, leaseTime)
  local n, w, at = string.match(redis.call('GET', placesKey) or '', '^(%d+)|(%d+)|(%d+)$')
  local workers = redis.call('ZCARD', workersKey)
  if n and tonumber(w) == workers and t - tonumber(at) < 1000 and t >= tonumber(at) then return tonumber(n) end
  local total = 0
  local alive = redis.call('ZRANGEBYSCORE', workersKey, t - leaseTime, '+inf', 'LIMIT', 0, 5000)
  for i = 1, #alive, 1000 do
    local infos = redis.call('HMGET', workerInfoKey, unpack(alive, i, math.min(i + 999, #alive)))
    for _, info in ipairs(infos) do
      total = total + (tonumber(string.match(info or '', '"concurrency":(%d+)')) or 1)
    end
  end
  redis.call('SET', placesKey, string.format('%d|%d|%.0f', total, workers, t), 'PX', 60000)
  return total
end

-- The part of the places that a shard may use for jobs of hosts that were given up: each shard counts all places.
local function placesOfShard(places, workersKey, workerInfoKey)
  local worker = redis.call('ZRANGE', workersKey, 0, 0)[1]
  local info = worker and redis.call('HGET', workerInfoKey, worker) or ''
  return places / math.max(tonumber(string.match(info, '"shards":(%d+)')) or 1, 1)
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

-- The id of a job as its submitter knows it; see `JobKey`.
local function submittedId(key)
  return string.match(key, '^[^/]*/([^/]*)') or key
end

-- A number with more digits than cjson writes.
local longNumber = string.rep('[%d.]', 15)

-- The values of an object or an array of JSON as they are written, and the names of those of an object. The text must
-- have been read by cjson.
local function rawValues(json)
  local values, names, depth, i, from, name, text = {}, {}, 0, 1, nil, nil, nil
  local function add(to)
    local value = string.match(string.sub(json, from, to), '^%s*(.-)%s*$')
    if value ~= '' then values[#values + 1], names[#names + 1] = value, name or '' end
  end
  while true do
    local at = string.find(json, '[%[%]{}",:]', i)
    if not at then return values, names end
    local sign = string.sub(json, at, at)
    i = at + 1
    if sign == '"' then
      local last = string.find(json, '["\\]', i)
      while last and string.sub(json, last, last) == '\\' do last = string.find(json, '["\\]', last + 2) end
      if not last then return values, names end
      text = string.sub(json, i, last - 1)
      i = last + 1
    elseif sign == '{' or sign == '[' then
      depth = depth + 1
      if depth == 1 then from = i end
    elseif depth == 1 and sign == ':' then
      from, name = i, text
    elseif depth == 1 then
      add(at - 1)
      from, name = i, nil
      if sign ~= ',' then return values, names end
    elseif sign == '}' or sign == ']' then
      depth = depth - 1
    end
  end
end

-- The value of a member of an object of JSON as it is written, on one line; nil if there is none.
local function rawMember(json, member)
  local values, names = rawValues(json)
  for i, name in ipairs(names) do
    if name == member then return (string.gsub(values[i], '[\r\n]', ' ')) end
  end
end

-- The labels of a job or a source as JSON; nil if it has none. cjson writes 14 digits of a number, and an id may have
-- more. Throws if they cannot be written, as 1e999.
local function labelsOf(job, json)
  if type(job.labels) ~= 'table' or not next(job.labels) then return nil end
  local text = cjson.encode(job.labels)
  return string.find(json, longNumber) and rawMember(json, 'labels') or text
end

-- The outcome of a job that is not admitted, in the form that a worker writes. The labels are JSON; nil or empty means
-- none. The outcome of an `id_conflict` includes the job, on one line, if the job has at most 16 KiB
-- (`JobOutcome.maximumJobSize`).
local function refusedOutcome(key, json, status, code, message, labels)
  local read, job = pcall(cjson.decode, json)
  local source = read and type(job) == 'table' and type(job.source) == 'string' and job.source or ''
  if #source > 2048 then source = string.gsub(string.sub(source, 1, 2048), '[\192-\255][\128-\191]*$', '') end
  local noted = labels and labels ~= '' and ',"labels":' .. labels or ''
  local whole = ''
  if code == 'id_conflict' and #json <= 16384 then
    whole = ',"job":' .. string.gsub(json, '[\r\n]', ' ')
  end
  return '{"attempts":0,"error":{"code":"' .. code .. '","message":' .. cjson.encode(message) ..
    ',"retryable":false},"id":' .. cjson.encode(submittedId(key)) .. whole .. noted ..
    ',"outputs":[],"seconds":0,"source":' ..
    cjson.encode(source) .. ',"status":"' .. status .. '"}'
end

-- The outcomes of all sources of a pack that is not admitted, one for each, and the keys of the sources.
local function refusedOutcomes(key, json, status, code, message)
  local pack, outcomes, keys = cjson.decode(json), {}, {}
  local raw = string.find(json, longNumber) and rawValues(rawMember(json, 'sources') or '') or {}
  local scope = string.match(key, '^[^/]*/') or ''
  for i, source in ipairs(pack.sources) do
    -- A repair also finds packs that no coordinator has validated.
    if type(source) ~= 'table' then source = {source = tostring(source)} end
    local id = scope .. (type(source.id) == 'string' and source.id or submittedId(key) .. '.' .. i)
    local labels = labelsOf(source, raw[i] or '')
    outcomes[i], keys[i] = refusedOutcome(id, cjson.encode({source = source.source}), status, code, message, labels), id
  end
  return outcomes, keys
end

-- Puts the outcome of a job into the outbox, from which the leader sends it to the client. `target` is the time to
-- live of the client's list in seconds, a NUL and the key of the list, or `webhook`, a NUL and a URL; empty for a job
-- without a reply. An outcome for which there is no room within the limit on outcomes is dropped and counted, and so is
-- one whose outbox is damaged: this is called between writes, and must not end the script.
local function addReply(repliesKey, statKey, target, key, outcome)
  if target == '' then return end
  local entry = target .. '\0' .. key .. '\0' .. outcome
  local v = redis.call('HMGET', statKey, 'outcome_bytes', 'outcome_limit')
  local isFull = (tonumber(v[1]) or 0) + #entry > (tonumber(v[2]) or 1073741824)
  if isFull or type(redis.pcall('RPUSH', repliesKey, entry)) ~= 'number' then
    redis.call('HINCRBY', statKey, 'replies_dropped', 1)
    return
  end
  redis.call('HINCRBY', statKey, 'reply_bytes', #entry)
  redis.call('HINCRBY', statKey, 'outcome_bytes', #entry)
end

-- Webhooks: outcomes that wait for an HTTP request of the leader. They have four keys: `webhooks`, a hash with the
-- text of each by its number · `webhookqueue`, a sorted set of members with the score 0, so that those of one host are
-- in the order in which they are due · `webhookhosts`, a sorted set: host to the ms of its next request ·
-- `webhookstate`, a hash: host to its bytes, `<host>\0` to its failures in a row and the ms until which its circuit
-- breaker is open, `0 0` after an answer, and the empty name to the bytes of all hosts.

-- The member of a webhook in the queue. While it is claimed, it is due when its lease ends.
local function webhookMember(host, due, since, attempts, id)
  return host .. string.format('\0%014d\0%d\0%d\0', due, since, attempts) .. id
end

-- Host, ms at which it is due, ms since which it waits, attempts and number of a member; nil if another program wrote
-- it.
local function unpackWebhook(member)
  local host, due, since, attempts, id = string.match(member, '^(%Z+)%z(%d+)%z(%d+)%z(%d+)%z(%d+)$')
  return host, tonumber(due), tonumber(since), tonumber(attempts), id
end

-- The failures of a host in a row, the ms until which its circuit breaker is open, and whether it has answered since it
-- has webhooks, the last time included.
local function webhookCircuit(stateKey, host)
  local failures, opened = string.match(redis.call('HGET', stateKey, host .. '\0') or '', '^(%d+) (%d+)$')
  return tonumber(failures) or 0, tonumber(opened) or 0, failures == '0'
end

-- Sets the time of a host's next request: that of its first webhook, and not before its circuit breaker lets one pass,
-- nor before now: a host with many old webhooks takes its turn behind the hosts that are due already.
-- A host without webhooks is forgotten.
local function setWebhookTurn(queueKey, hostsKey, stateKey, host)
  local first = redis.call('ZRANGEBYLEX', queueKey, '[' .. host .. '\0', '(' .. host .. '\1', 'LIMIT', 0, 1)[1]
  if first then
    local _, due = unpackWebhook(first)
    local _, opened = webhookCircuit(stateKey, host)
    redis.call('ZADD', hostsKey, string.format('%d', math.max(due or 0, opened, now())), host)
    return
  end
  redis.call('ZREM', hostsKey, host)
  redis.call('HDEL', stateKey, host, host .. '\0')
  -- No webhooks have no bytes, whatever was counted: an operator may have deleted some.
  if redis.call('EXISTS', queueKey) == 0 then redis.call('DEL', stateKey) end
end

-- Deletes a webhook whose member the caller has removed from the queue: its bytes no longer count, and `stat` counts it
-- as `delivered` or `dropped`.
local function endWebhook(webhooksKey, stateKey, statKey, host, id, result)
  local size = redis.call('HSTRLEN', webhooksKey, id)
  redis.call('HDEL', webhooksKey, id)
  addToGauge(stateKey, host, -size)
  addToGauge(stateKey, '', -size)
  addToGauge(statKey, 'outcome_bytes', -size)
  redis.call('HINCRBY', statKey, 'webhooks_' .. result, 1)
end

-- The same outcome for a duplicate of that job.
local function asDuplicate(outcome)
  return (string.gsub(outcome, '^(.*)"status":"%a+"', '%1"status":"deduplicated"'))
end

-- The key of an idempotency key: those are the last keys of a script.
local function onceKey(number, count)
  return KEYS[#KEYS - count + number]
end

-- The job that has an idempotency key, and its outcome as JSON if it is known; nil if no job has it.
local function readOnce(key)
  local entry = redis.pcall('GET', key)
  if type(entry) ~= 'string' then return nil end
  local id, outcome = string.match(entry, '^([^\n]*)\n(.*)$')
  return id, string.sub(outcome or '', 1, 1) == '{' and outcome or nil
end

-- Keeps the outcome of the job that has an idempotency key, for as long as the key is remembered. A cancelled job gives
-- the key up. Of an outcome of more than 2 KiB only the error is kept: that of a failed job has the whole job.
local function endOnce(key, id, status, outcome)
  if readOnce(key) ~= id then return end
  if status == 'cancelled' then
    redis.call('DEL', key)
    return
  end
  if #outcome > 2048 then
    local read, known = pcall(cjson.decode, outcome)
    local failure = read and type(known) == 'table' and type(known.error) == 'table' and cjson.encode(known.error)
    outcome = failure and '{"attempts":0,"error":' .. failure ..
      ',"outputs":[],"seconds":0,"source":"","status":"failed"}' or '-'
    if #outcome > 2048 then outcome = '-' end
  end
  redis.call('SET', key, id .. '\n' .. outcome, 'XX', 'KEEPTTL')
end

-- The outcome of a job whose idempotency key another job has: outputs or error of that one, if its outcome is known.
local function onceOutcome(id, json, labels, first, outcome)
  local own = refusedOutcome(id, json, 'deduplicated', 'duplicate_key',
                             'The job "' .. submittedId(first) .. '" has the same key; its own line has the outcome.',
                             labels)
  local read, known = pcall(cjson.decode, outcome or '')
  if not read or type(known) ~= 'table' or type(known.outputs) ~= 'table' then return own end
  local failure = type(known.error) == 'table' and ',"error":' .. cjson.encode(known.error) or ''
  local outputs = #known.outputs > 0 and cjson.encode(known.outputs) or '[]'
  local noted = labels and labels ~= '' and ',"labels":' .. labels or ''
  return '{"attempts":0' .. failure .. ',"id":' .. cjson.encode(submittedId(id)) .. noted .. ',"outputs":' .. outputs ..
    ',"seconds":0,"source":' .. cjson.encode(cjson.decode(own).source) .. ',"status":"deduplicated"}'
end

-- Deletes dead letters, and returns how many there were.
local function deleteDeadLetters(deadKey, deadInfoKey, statKey, ids)
  local count, bytes = callForAll('ZREM', deadKey, ids), 0
  if count == 0 then return 0 end
  for _, id in ipairs(ids) do
    local size = redis.call('HSTRLEN', deadInfoKey, id)
    if size > 0 then bytes = bytes + #id + size end
  end
  callForAll('HDEL', deadInfoKey, ids)
  addToGauge(statKey, 'dead_bytes', -bytes)
  return count
end

-- Deletes up to `most` of the oldest dead letters while they died before `time`, or there are more than 100,000, or
-- they have more bytes than the limit that the leader has set. The newest one stays. Returns how many were deleted.
local function trimDeadLetters(deadKey, deadInfoKey, statKey, time, most)
  local count = redis.call('ZCARD', deadKey)
  local v = redis.call('HMGET', statKey, 'dead_bytes', 'dead_limit')
  local bytes, limit, oldest = tonumber(v[1]) or 0, tonumber(v[2]) or 33554432, {}
  while #oldest < most do
    local isOver = count - #oldest > 100000 or bytes > limit and count - #oldest > 1
    if not isOver and time <= 0 then break end
    local first = redis.call('ZRANGE', deadKey, #oldest, #oldest, 'WITHSCORES')
    if #first == 0 or not isOver and tonumber(first[2]) >= time then break end
    oldest[#oldest + 1] = first[1]
    bytes = bytes - #first[1] - redis.call('HSTRLEN', deadInfoKey, first[1])
  end
  if #oldest > 0 then
    deleteDeadLetters(deadKey, deadInfoKey, statKey, oldest)
    redis.call('HINCRBY', statKey, 'dead_dropped', #oldest)
  end
  if count == #oldest then redis.call('HSET', statKey, 'dead_bytes', 0) end
  return #oldest
end

-- Adds a dead letter, and deletes up to 64 old ones if there are too many.
local function addDeadLetter(deadKey, deadInfoKey, statKey, id, json)
  local before = redis.call('HSTRLEN', deadInfoKey, id)
  redis.call('ZADD', deadKey, now(), id)
  redis.call('HSET', deadInfoKey, id, json)
  addToGauge(statKey, 'dead_bytes', #json - before + (before > 0 and 0 or #id))
  trimDeadLetters(deadKey, deadInfoKey, statKey, 0, 64)
end

-- Whether a batch can count: its key does not exist yet, or is a hash whose counters are numbers far from overflow.
-- Scripts check this before their first write.
local function isConsistent(batchKey, knownKey)
  local kind, knownKind = redis.call('TYPE', batchKey).ok, redis.call('TYPE', knownKey).ok
  if knownKind ~= 'none' and knownKind ~= 'hash' then return false end
  if kind ~= 'hash' then return kind == 'none' end
  local counters = redis.call('HMGET', batchKey, 'total', 'own', 'done', 'failed', 'cancelled', 'deduplicated')
  for _, value in ipairs(counters) do
    -- As HINCRBY reads it, which accepts no leading zero.
    if value and value ~= '0' and (#value > 15 or not string.match(value, '^%-?[1-9]%d*$')) then return false end
  end
  return true
end

-- The name of the batch that has this key: a queue's name has no brace.
local function nameOfBatch(batchKey)
  return string.match(batchKey, '}[^}]-batch:(.*)$')
end

-- Marks a batch as finished if it is complete: it is closed, everything that its submitter pushed was admitted (`own`),
-- at least as many jobs as were announced (`expected`), and all of its jobs (`total`, which includes those of the
-- public intake) have ended. Returns 1 once, and then deletes `known`.
local function closeIfComplete(batchKey, knownKey, endedKey)
  local v = redis.call('HMGET', batchKey, 'closed', 'submitted', 'own', 'total', 'done', 'failed', 'cancelled',
                       'deduplicated', 'expected')
  local ended, total = 0, tonumber(v[4]) or 0
  for i = 5, 8 do ended = ended + (tonumber(v[i]) or 0) end
  if v[1] == '1' and (tonumber(v[3]) or 0) >= (tonumber(v[2]) or 0) and ended >= total and
     total >= (tonumber(v[9]) or 0) then
    redis.call('UNLINK', knownKey)
    local t = now()
    if redis.call('HSETNX', batchKey, 'finished', t) == 1 then
      redis.call('ZADD', endedKey, t, nameOfBatch(batchKey))
      return 1
    end
  end
  return 0
end

-- Appends outcomes for the duplicates that wait for these jobs, without the outputs if they are long, and records in
-- `known` how the jobs ended, for later duplicates. It records a whole outcome only if the batch keeps a ledger,
-- `known` has at most 50,000 entries and the outcome at most 2 KiB; otherwise only that the job has ended.
local function endDuplicates(batchKey, knownKey, counts, outcomes)
  if redis.call('TYPE', knownKey).ok ~= 'hash' then return end
  local keeps = redis.call('HGET', batchKey, 'ledger') == '1' and redis.call('HLEN', knownKey) <= 50000
  local duplicates = 0
  for i = 1, #outcomes do
    local id = string.match(outcomes[i], '"id":"([^"]*)"')
    local known = id and redis.call('HGET', knownKey, 'i' .. id)
    local content, state = string.match(known or '', '^(%x+):(.*)$')
    local waiting = tonumber(state)
    if waiting then
      local ended = keeps and #outcomes[i] <= 2048 and outcomes[i] or '-'
      redis.call('HSET', knownKey, 'i' .. id, content .. ':' .. ended)
      local duplicate = asDuplicate(outcomes[i])
      -- At most 2 KiB for each: a call may end 128 jobs with eight duplicates.
      if #duplicate > 2048 then
        duplicate = string.gsub(duplicate, '^(.*),"outputs":%[.*%],"seconds":', '%1,"outputs":[],"seconds":')
      end
      for _ = 1, waiting do outcomes[#outcomes + 1] = duplicate end
      duplicates = duplicates + waiting
    end
  end
  if duplicates > 0 then counts.deduplicated = (counts.deduplicated or 0) + duplicates end
end

-- The outcomes that a batch keeps: their number, their bytes, and the bytes that are noted. The noted ones are wrong if
-- a client has popped outcomes with a command of its own; the length of the list shows that.
local function storedOutcomes(batchKey, resultsKey)
  local length = redis.call('LLEN', resultsKey)
  local count, noted = string.match(redis.call('HGET', batchKey, 'stored') or '', '^(%d+):(%d+)$')
  count, noted = tonumber(count) or 0, tonumber(noted) or 0
  if length == 0 then return 0, 0, noted end
  return length, count > length and math.floor(noted * length / count) or noted, noted
end

-- Notes how many outcomes and bytes a batch keeps, and adds the difference to the sum of all batches.
local function noteStored(statKey, batchKey, count, bytes, noted)
  redis.call('HSET', batchKey, 'stored', string.format('%d:%.0f', count, bytes))
  addToGauge(statKey, 'outcome_bytes', bytes - noted)
end

-- Appends outcomes to the ledger of a batch, numbered without a gap: `outcomes` is the number of the last. Each differs
-- from the outcome that had its number before Redis returned to an earlier state: if no worker needed a time of its own
-- for the job, by its field `endedAt`, the time of this call. Beyond 1,000,000 outcomes or 1 GiB that no reader has
-- received, or beyond the limit that the leader has set for all batches together, outcomes are dropped and counted.
local function keepOutcomes(statKey, batchKey, resultsKey, outcomes)
  local length, bytes, noted = storedOutcomes(batchKey, resultsKey)
  local v = redis.call('HMGET', batchKey, 'outcomes', 'read')
  local limits = redis.call('HMGET', statKey, 'outcome_bytes', 'outcome_limit')
  local others = math.max((tonumber(limits[1]) or 0) - noted, 0)
  local limit = math.min(1073741824, (tonumber(limits[2]) or 1073741824) - others)
  local kept = {}
  local stamp = string.format(',"endedAt":%.3f', now() / 1000)
  for _, outcome in ipairs(outcomes) do
    -- The last one is the outcome's own: others may be in its labels.
    if string.match(outcome, '^.*"seconds":([^,}]*)') == '0' then
      outcome = string.gsub(outcome, '^(.*"seconds":0)', '%1' .. stamp)
    end
    if length + #kept < 1000000 and bytes + #outcome <= limit then
      kept[#kept + 1] = outcome
      bytes = bytes + #outcome
    end
  end
  if #kept < #outcomes then redis.call('HINCRBY', batchKey, 'results_dropped', #outcomes - #kept) end
  if #kept == 0 then return end
  callForAll('RPUSH', resultsKey, kept)
  local last = math.max(tonumber(v[1]) or 0, (tonumber(v[2]) or 0) + length) + #kept
  redis.call('HSET', batchKey, 'outcomes', string.format('%.0f', last))
  noteStored(statKey, batchKey, length + #kept, bytes, noted)
end

-- Adds `counts` to the batch's counters, closes the batch if it is complete, and appends the outcomes to the ledger if
-- the batch keeps one. The ledger comes last, so that no completion is lost to a damaged ledger. Duplicates that wait
-- for these jobs end with them. With `refusals`, the outcomes belong to jobs that were never admitted, and no duplicate
-- waits for them.
local function finish(statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  if not refusals then endDuplicates(batchKey, knownKey, counts, outcomes) end
  for field, count in pairs(counts) do redis.call('HINCRBY', batchKey, field, count) end
  local closed = closeIfComplete(batchKey, knownKey, endedKey)
  if redis.call('HGET', batchKey, 'ledger') == '1' then keepOutcomes(statKey, batchKey, resultsKey, outcomes) end
  return closed
end

-- Calls `finish` for jobs that have already ended, and returns whether it succeeded. If not, it counts the outcomes in
-- `damaged_batch_ends`. Lua does not roll back: a batch that cannot count must not abort a script between two of its
-- writes.
local function finishOrFlagDamaged(statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals)
  local ends = #outcomes
  if pcall(finish, statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes, refusals) then return true end
  redis.call('HINCRBY', statKey, 'damaged_batch_ends', ends)
  return false
end
