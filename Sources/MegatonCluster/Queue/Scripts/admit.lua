#!lua flags=allow-oom
-- admit: turns the first jobs of the stage into jobs that can be claimed, or into dead letters.
--
-- KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 body · 5 meta · 6-8 ready: high, normal, bulk · 9 wake · 10 dead ·
--      11 deadinfo · 12 stat · 13 batches · 14 cancelled · 15 round · 16 holding · 17 held · 18 pace ·
--      19 heldbytes · 20 ended · 21 delay · 22 replies, then for each batch concerned: batch:<b>, results:<b>,
--      known:<b>; then once:<digest> of idempotency keys
-- ARGV 1 caller's name · 2 epoch · 3 maximum number of wake tokens · 4 the round that the caller knows · 5 number
--      of batches · 6 number of idempotency keys · 7 number of entries of the stage from which the jobs come · 8
--      number of waiting jobs, and 9 of their bytes, above which no job of a public list is scheduled · the names of
--      the batches, then a MessagePack array with thirteen texts for each job: key · `1`-`3` its priority, `@`
--      and the digest of its source (`*` and the number of its sources for a pack), `@` and its host if it has one, or
--      `x` if it is invalid · number of its batch, 0 for none · `1` if it came through its batch's own intake · its
--      JSON, or its dead letter · the digest that distinguishes it from other jobs, if its batch admits equal jobs only
--      once, otherwise ``; or the outcome of an invalid job · its content in 32 hex digits, if its id is to be compared
--      with those that the batch has had, otherwise `` · its labels as JSON, otherwise `` · number of its idempotency
--      key, 0 for none · how long that is remembered from the time at which the job may begin, ms · ms since 1970
--      before which it does not begin, or 0 · where its outcome is sent (`addReply`), otherwise `` · number of
--      jobs with which its batch closes, 0 for none · then each JSON that is `` in the array, as it is large: Redis
--      hashes all bytes of each text of a script, 1 ms for 1 MiB, and those of an array once more
-- Returns {admitted, invalid or of a damaged batch or in conflict, duplicates, cancelled}, each a number of sources, or
--      the error NOTLEADER or STALEROUND. The round is then one higher.
-- Before: the jobs are those of the first entries of the stage, in order: a pack may have been split into many. After:
-- the entries have left the stage, and each job is in exactly one of ready, held, delayed, dead, ended and waiting; its
-- batch's `total` counts it, or the sources of a pack. A job is held if the turn of its host is later, and delayed if
-- it is not to begin yet. `packed` in stat is the number of sources of the packs that are alive, minus the number of
-- these packs.
-- A job whose key its batch has had, or whose key is alive, is a duplicate if the content is the same: it ends as
-- `deduplicated` with the outcome of the first job if that is known, or waits for it (at most 8 duplicates) until
-- `finish` answers. With other content it becomes a dead letter with the code `id_conflict`, under a key of its own.
-- A job of a public list that begins in more than an hour becomes one with the code `schedule_full` if more jobs or
-- bytes than the caller allows wait for such a time. Their bytes are estimated from 500 of them.
-- A batch remembers 1,000,000 ids until it has ended, or for a day after its last job if it has no submitter. Beyond
-- that, and without a batch, only jobs that are alive are compared, by their JSON. A job that a deduplicating batch
-- has seen is a duplicate too, and so is one whose idempotency key another job has had, in any batch, for as long as
-- that is remembered: it ends at once, with the outcome of that job if it is known.
-- A batch without a submitter closes as with `closeBatch` if a job names the number of its jobs; the first one counts.
-- The outcome of a job with a reply that ends here is in the outbox `replies`. Such a job does not wait for the first
-- one with its id: it ends at once.
-- A batch whose key, counters or `known` are damaged counts nothing and is not touched: its jobs become dead letters
-- instead of ready, and each that ends here is counted in `damaged_batch_ends`. Jobs of other batches are admitted as
-- if it did not exist. If only its ledger is damaged, it lacks outcomes but no jobs.

local leaderKey, epochKey, stageKey, bodyKey, metaKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wakeKey, deadKey, deadInfoKey, statKey, batchesKey = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local cancelledKey, roundKey, endedKey, delayKey, repliesKey = KEYS[14], KEYS[15], KEYS[20], KEYS[21], KEYS[22]
local frontier = openFrontier(KEYS[16], KEYS[17], KEYS[18], KEYS[19], bodyKey)
local readyKeys = {KEYS[6], KEYS[7], KEYS[8]}
local caller, epoch, maximumTokens, round = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local batchCount, onceCount, fixedArguments, argumentsPerJob = tonumber(ARGV[5]), tonumber(ARGV[6]), 9, 13
local entryCount, maximumWaiting, fixedKeys = tonumber(ARGV[7]), 8, 22
local waitingJobs, waitingBytes = tonumber(ARGV[8]), tonumber(ARGV[9])

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
if (redis.call('GET', roundKey) or '0') ~= round then
  return redis.error_reply('STALEROUND the stage has changed since its leader read it')
end
-- One argument, as Redis reads a large one at once, and many small ones beside all other clients.
local fields = cmsgpack.unpack(ARGV[fixedArguments + batchCount + 1])
local first, last, largeText = 1, #fields, fixedArguments + batchCount + 1
for i = first, last, argumentsPerJob do
  if fields[i + 4] == '' then
    largeText = largeText + 1
    fields[i + 4] = ARGV[largeText]
  end
end
if redis.call('LLEN', stageKey) < entryCount then
  return redis.error_reply('STALEROUND the stage has fewer jobs than its leader has read')
end
-- The number of sources of a job, from its kind.
local function size(kind)
  return sourceCount(string.match(kind, '^%d@(%*%d+)') or '')
end
local batches = {}
for number = 1, batchCount do
  local name = ARGV[fixedArguments + number]
  local batchKey, resultsKey, knownKey = batchKeys(fixedKeys, number)
  batches[number] = {
    name = name, key = batchKey, results = resultsKey, known = knownKey, total = 0, own = 0,
    damaged = not isConsistent(batchKey, knownKey),
    cancelled = redis.call('SISMEMBER', cancelledKey, name) == 1
  }
end
local ids, alive = {}, {}
for i = first, last, argumentsPerJob do
  ids[#ids + 1] = fields[i]
  local batch = batches[tonumber(fields[i + 2])]
  if batch then
    batch.total = batch.total + size(fields[i + 1])
    if fields[i + 12] ~= '0' then batch.expected = batch.expected or fields[i + 12] end
    if fields[i + 3] == '1' then batch.own = batch.own + size(fields[i + 1]) end
  end
end
-- A batch counts all of its jobs before the first of them ends here, so that it is not finished in between.
for _, batch in ipairs(batches) do
  if batch.total > 0 and not batch.damaged then
    redis.call('HINCRBY', batch.key, 'total', batch.total)
    redis.call('HINCRBY', batch.key, 'own', batch.own)
    if redis.call('ZADD', batchesKey, 'NX', now(), batch.name) == 1 then
      redis.call('HSETNX', batch.key, 'created', now())
    end
    -- A closed batch has its number, or an operator has removed that (`closeBatch`, `cancelBatch`), as fewer jobs come.
    if batch.expected then
      local v = redis.call('HMGET', batch.key, 'submitter', 'closed')
      if not v[1] and not v[2] then redis.call('HSET', batch.key, 'expected', batch.expected, 'closed', '1') end
    end
    -- An open batch is forgotten if it gets no more jobs for long.
    redis.call('ZADD', endedKey, now(), batch.name)
  end
end
-- Jobs are alive if they have a meta, which is small: a body may have a megabyte.
for i = 1, #ids, 1000 do
  local known = redis.call('HMGET', metaKey, unpack(ids, i, math.min(i + 999, #ids)))
  for k, meta in ipairs(known) do alive[ids[i + k - 1]] = meta and true end
end
local result = {0, 0, 0, 0}
local fresh, bodies, metas, ready, later, t = {}, {}, {}, {{}, {}, {}}, {}, now()
local delayed, delayedIds, delayedPacked, packed = {}, {}, 0, 0
-- Deletes the dead letters of the jobs that were admitted so far. Called before a dead letter is added: a job that
-- is refused after another was admitted under the same id stays dead.
local function revive()
  deleteDeadLetters(deadKey, deadInfoKey, statKey, fresh)
  fresh = {}
end
-- The JSON of the jobs that are admitted here, by key.
local texts = {}
local function isSame(id, json)
  if texts[id] then return texts[id] == json end
  return redis.call('HSTRLEN', bodyKey, id) == #json and redis.call('HGET', bodyKey, id) == json
end
-- The ids and sources of a pack; nil if it cannot be read.
local function packSources(id, json)
  local read, pack = pcall(cjson.decode, json)
  if not read or type(pack) ~= 'table' or type(pack.sources) ~= 'table' then return nil end
  local sources = {}
  for i, source in ipairs(pack.sources) do
    if type(source) == 'string' then source = {source = source} end
    sources[tostring(source.id or submittedId(id) .. '.' .. i)] = source.source
  end
  return sources
end
-- Whether the pack that is alive is this one, of which some sources may have ended: the fields in front of the sources
-- are the same, and all of its sources are among these.
local function isSamePack(id, json)
  if isSame(id, json) then return true end
  local other = texts[id] or redis.call('HGET', bodyKey, id) or ''
  local at = string.find(json, '"sources":[', 1, true)
  if not at or string.sub(json, 1, at + 10) ~= string.sub(other, 1, at + 10) then return false end
  local mine, others = packSources(id, json), packSources(id, other)
  if not mine or not others then return false end
  for name, source in pairs(others) do
    if mine[name] ~= source then return false end
  end
  return true
end
-- The key of a dead letter whose own key is another job's.
local function spareKey(id, i)
  return (string.find(id, '/', 1, true) and id or '/' .. id) .. '/' .. redis.call('GET', roundKey) .. '.' .. i
end
-- Where the outcome of the job is sent that the loop below has reached.
local target = ''
local function countEnd(batch, id, counter, outcome)
  addReply(repliesKey, statKey, target, id, outcome)
  if batch and batch.damaged then
    redis.call('HINCRBY', statKey, 'damaged_batch_ends', 1)
  elseif batch then
    finishOrFlagDamaged(statKey, endedKey, batch.key, batch.results, batch.known, {[counter] = 1}, {outcome}, true)
  end
end
-- Ends a pack without a run: each of its sources.
local function endPack(batch, id, json, counter, status, code, message)
  local outcomes, keys = refusedOutcomes(id, json, status, code, message)
  for i, outcome in ipairs(outcomes) do addReply(repliesKey, statKey, target, keys[i], outcome) end
  redis.call('HINCRBY', statKey, counter, #outcomes)
  if batch and batch.damaged then
    redis.call('HINCRBY', statKey, 'damaged_batch_ends', #outcomes)
  elseif batch then
    finishOrFlagDamaged(statKey, endedKey, batch.key, batch.results, batch.known, {[counter] = #outcomes}, outcomes,
                        true)
  end
  return #outcomes
end
local function duplicate(batch, id, json, labels, outcome)
  redis.call('HINCRBY', statKey, 'deduplicated', 1)
  countEnd(batch, id, 'deduplicated', outcome or refusedOutcome(id, json, 'deduplicated', 'duplicate_id',
           'The same job with this id is there already; its own line has the outcome.', labels))
  result[3] = result[3] + 1
end
-- Ends a job or a pack as failed, with a dead letter under this key.
local function refuse(batch, id, kind, json, labels, key, code, message)
  local letter = {attempts = 0, code = code, message = message, job = json, batch = batch and batch.name}
  letter = cjson.encode(letter)
  if labels ~= '' then letter = string.sub(letter, 1, -2) .. ',"labels":' .. labels .. '}' end
  revive()
  addDeadLetter(deadKey, deadInfoKey, statKey, key, letter)
  if size(kind) > 1 then
    result[2] = result[2] + endPack(batch, id, json, 'failed', 'failed', code, message)
    return
  end
  redis.call('HINCRBY', statKey, 'failed', 1)
  countEnd(batch, id, 'failed', refusedOutcome(id, json, 'failed', code, message, labels))
  result[2] = result[2] + 1
end
local function conflict(batch, id, json, labels, i)
  local message = 'id is "' .. submittedId(id) .. '", the id of another job ' ..
    (batch and 'of the batch "' .. batch.name .. '"' or 'that has not ended') ..
    ' with another source, renditions, output, credential or labels; that job came first and stays, and this one is ' ..
    'refused; give each job an id of its own'
  refuse(batch, id, '', json, labels, spareKey(id, i), 'id_conflict', message)
end
-- Whether the job's key is known. If it is, the job has ended as a duplicate or a conflict, or waits for the first job
-- with that key.
local function isKnown(batch, id, json, content, labels, i)
  local known = content ~= '' and redis.call('HGET', batch.known, 'i' .. submittedId(id))
  if not known and not alive[id] then return false end
  if not known then
    if isSame(id, json) then duplicate(batch, id, json, labels) else conflict(batch, id, json, labels, i) end
    return true
  end
  local state = string.sub(known, 34)
  local waiting = tonumber(state)
  if string.sub(known, 1, 32) ~= content then
    conflict(batch, id, json, labels, i)
  elseif string.sub(state, 1, 1) == '{' then
    duplicate(batch, id, json, labels, asDuplicate(state))
  elseif waiting and waiting < maximumWaiting and alive[id] and target == '' then
    redis.call('HSET', batch.known, 'i' .. submittedId(id), content .. ':' .. waiting + 1)
    -- It must not be forgotten before the first job ends.
    batch.hasWaiting = true
    redis.call('HINCRBY', statKey, 'deduplicated', 1)
    result[3] = result[3] + 1
  else
    duplicate(batch, id, json, labels)
  end
  return true
end
-- Whether another job has this idempotency key. If so, the job has ended as a duplicate.
local function isOnce(batch, id, json, labels, once)
  if once == 0 then return false end
  local other, outcome = readOnce(onceKey(once, onceCount))
  if not other then return false end
  duplicate(batch, id, json, labels, onceOutcome(id, json, labels, other, outcome))
  return true
end
-- The jobs that begin in more than an hour, and their bytes: those of this call, and all others when a job of a public
-- list is to be one of them.
local far = {jobs = 0, bytes = 0, isRead = false}
local function isFar(notBefore) return notBefore > t + 3600000 end
local function readFar()
  far.isRead = true
  local jobs = redis.call('ZCOUNT', delayKey, string.format('(%.0f', t + 3600000), '+inf')
  local bytes = tonumber(redis.call('HGET', frontier.bytes, 'bytes')) or 0
  far.jobs = far.jobs + jobs
  if jobs == 0 or bytes <= waitingBytes then return end
  local count, sum, read = redis.call('ZCARD', delayKey), 0, 0
  for rank = count - jobs, count - 1, math.ceil(jobs / 500) do
    sum = sum + redis.call('HSTRLEN', bodyKey, redis.call('ZRANGE', delayKey, rank, rank)[1])
    read = read + 1
  end
  far.bytes = far.bytes + sum / read * jobs
end
-- Whether a job of a public list begins too late: its list would be closed for all clients until then.
local function isScheduleFull(notBefore, isOwn)
  if not isFar(notBefore) or isOwn == '1' then return false end
  if not far.isRead then readFar() end
  return far.bytes > waitingBytes or far.jobs > waitingJobs
end
local function admit(batch, id, kind, json, content, notBefore)
  alive[id] = true
  texts[id] = json
  if content ~= '' and redis.call('HLEN', batch.known) < 1000000 then
    redis.call('HSET', batch.known, 'i' .. submittedId(id), content .. ':0')
    batch.remembers = true
  end
  fresh[#fresh + 1] = id
  bodies[#bodies + 1] = id
  bodies[#bodies + 1] = json
  local priority, digest, host = string.match(kind, '^(%d)@?([^@]*)@?(.*)$')
  local name = batch and batch.name or ''
  if notBefore > t then
    metas[#metas + 1] = id
    metas[#metas + 1] = packMeta(0, 0, '', priority, name, 0, digest, host)
    delayed[#delayed + 1] = string.format('%.0f', notBefore)
    delayed[#delayed + 1] = id
    delayedIds[#delayedIds + 1] = id
    delayedPacked = delayedPacked + sourceCount(digest) - 1
    if isFar(notBefore) then far.jobs, far.bytes = far.jobs + 1, far.bytes + #json end
  elseif nextTurn(frontier, host) > t then
    later[#later + 1] = {id = id, a = 0, s = 0, p = priority, b = name, f = 0, d = digest, h = host}
  else
    metas[#metas + 1] = id
    metas[#metas + 1] = packMeta(0, 0, readyMark(t), priority, name, 0, digest, host)
    local list = ready[tonumber(priority)]
    list[#list + 1] = id
  end
  result[1] = result[1] + sourceCount(digest)
  packed = packed + sourceCount(digest) - 1
end
for i = first, last, argumentsPerJob do
  local id, kind, batch = fields[i], fields[i + 1], batches[tonumber(fields[i + 2])]
  local json, extra, content, labels = fields[i + 4], fields[i + 5], fields[i + 6], fields[i + 7]
  local once, lifetime, notBefore = tonumber(fields[i + 8]), tonumber(fields[i + 9]), tonumber(fields[i + 10])
  target = fields[i + 11]
  if kind == 'x' then
    revive()
    addDeadLetter(deadKey, deadInfoKey, statKey, alive[id] and spareKey(id, i) or id, json)
    redis.call('HINCRBY', statKey, 'failed', 1)
    countEnd(batch, id, 'failed', extra)
    result[2] = result[2] + 1
  elseif size(kind) > 1 and batch and batch.cancelled then
    result[4] = result[4] + endPack(batch, id, json, 'cancelled', 'cancelled', 'cancelled',
                                    'The batch was cancelled before the job began.')
  elseif size(kind) > 1 and alive[id] and not (batch and batch.damaged) then
    if isSamePack(id, json) then
      result[3] = result[3] + endPack(batch, id, json, 'deduplicated', 'deduplicated', 'duplicate_id',
                                      'The same pack is there already; the lines of its sources have the outcomes.')
    else
      refuse(batch, id, kind, json, '', spareKey(id, i), 'id_conflict',
             'id is "' .. submittedId(id) .. '", the id of another pack that has not ended')
    end
  elseif batch and batch.cancelled then
    redis.call('HINCRBY', statKey, 'cancelled', 1)
    countEnd(batch, id, 'cancelled',
             refusedOutcome(id, json, 'cancelled', 'cancelled', 'The batch was cancelled before the job began.',
                            labels))
    result[4] = result[4] + 1
  elseif batch and batch.damaged then
    local message = 'A key of the batch is damaged, so that it cannot count its jobs.'
    revive()
    addDeadLetter(deadKey, deadInfoKey, statKey, alive[id] and spareKey(id, i) or id, cjson.encode({
      attempts = 0, code = 'damaged_batch', batch = batch.name, job = json, message = message
    }))
    local outcomes, keys = {refusedOutcome(id, json, 'failed', 'damaged_batch', message, labels)}, {id}
    if size(kind) > 1 then outcomes, keys = refusedOutcomes(id, json, 'failed', 'damaged_batch', message) end
    for k, outcome in ipairs(outcomes) do addReply(repliesKey, statKey, target, keys[k], outcome) end
    redis.call('HINCRBY', statKey, 'failed', size(kind))
    redis.call('HINCRBY', statKey, 'damaged_batch_ends', size(kind))
    result[2] = result[2] + size(kind)
  elseif not isKnown(batch, id, json, content, labels, i) and not isOnce(batch, id, json, labels, once) then
    -- First, as a refused job may come again.
    if isScheduleFull(notBefore, fields[i + 3]) then
      refuse(batch, id, kind, json, labels, alive[id] and spareKey(id, i) or id, 'schedule_full',
             'notBefore is more than an hour ahead, and too many jobs of the queue wait for such a time; ' ..
             'submit the job later, or in a batch, whose jobs wait in a list of their own')
    elseif extra ~= '' and redis.call('HSETNX', batch.known, 'd' .. extra, '') == 0 then
      duplicate(batch, id, json, labels,
                refusedOutcome(id, json, 'deduplicated', 'duplicate', 'The batch has the same job already.', labels))
    else
      admit(batch, id, kind, json, content, notBefore)
      if once > 0 then
        local time = string.format('%.0f', lifetime + math.max(notBefore - t, 0))
        redis.call('SET', onceKey(once, onceCount), id .. '\n', 'PX', time)
      end
    end
  end
end
callForAll('HSET', bodyKey, bodies)
callForAll('HSET', metaKey, metas)
hold(frontier, metaKey, later, 'b', t)
callForAll('ZADD', delayKey, delayed)
countHeldBytes(frontier, delayedIds, 1, delayedPacked)
for k = 1, 3 do callForAll('LPUSH', readyKeys[k], ready[k]) end
revive()
redis.call('LTRIM', stageKey, entryCount, -1)
-- Not before: if damage ends this call in between, the next call of the round must not take its entries for its own.
redis.call('INCR', roundKey)
addToGauge(statKey, 'packed', packed)
for _, batch in ipairs(batches) do
  -- A batch without a submitter is never closed: it is forgotten after a day, or together with the batch if a duplicate
  -- waits for the end of its first job.
  if batch.hasWaiting then
    -- Longer than any job may be put off.
    redis.call('EXPIRE', batch.known, 34560000)
    redis.call('HSET', batch.known, 'waiting', '1')
  elseif batch.remembers and redis.call('HEXISTS', batch.key, 'submitter') == 0 and
         redis.call('HEXISTS', batch.known, 'waiting') == 0 then
    redis.call('EXPIRE', batch.known, 86400)
  end
end
local tokens = math.min(result[1] - packed - #later - #delayedIds, maximumTokens)
local announced = {}
for i = 1, tokens do announced[i] = '1' end
callForAll('LPUSH', wakeKey, announced)
if tokens > 0 then redis.call('LTRIM', wakeKey, 0, maximumTokens - 1) end
return result
