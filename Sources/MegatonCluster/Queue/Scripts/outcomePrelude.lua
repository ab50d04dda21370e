-- outcomePrelude: functions about the ends of jobs: outcomes that scripts write by themselves, replies, idempotency
-- keys and dead letters. It uses `queuePrelude`, and reads no KEYS of its own except in `onceKey`.

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
