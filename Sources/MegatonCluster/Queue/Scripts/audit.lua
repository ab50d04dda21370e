#!lua flags=allow-oom
-- audit: examines ids that looked inconsistent, each in its state at this moment, and repairs them on request.
--
-- KEYS 1 body · 2 meta · 3-5 ready: high, normal, bulk · 6 lease · 7 delay · 8 dead · 9 deadinfo · 10 wake · 11 stat ·
--      12 suspects · 13 holding · 14 ended · 15 heldbytes · 16 replies, then for each batch concerned: batch:<b>,
--      results:<b>, known:<b>; then once:<digest> of idempotency keys
-- ARGV 1 `1` to repair · 2 number of batches · 3 number of idempotency keys · the names of the batches, then three for
--      each job: id · number of its batch, 0 for none · number of its idempotency key, 0 for none
-- Returns a list of {id, kind, its places joined by ` + `, its batch, its idempotency key}, one for each fault: all
--      that were found, or those that were repaired.
--
-- The kinds are those of `QueueAudit.Kind`. Batches and idempotency keys may be left out if nothing is to be repaired.
-- Jobs in `suspects` count as ready here.
-- Before: any state. After a repair: each id has body and meta and is in exactly one of ready, lease, delay and held,
-- or is nowhere except, perhaps, in dead. A lease wins over delay, delay over held, held over ready; an orphan becomes
-- ready and goes first.
-- A job that cannot run any more has failed: its batch counts it, unless it is dead and was counted then, and its JSON,
-- if it still exists, is in dead. A batch that cannot count any more lacks the job, which is then in
-- `damaged_batch_ends` of stat. Such a job is left alone if its batch is not the one that was given. An unreadable meta
-- counts as missing: `claim` would fail on it. A pack fails with all of its sources. The idempotency key of a job that
-- fails gets its outcome, if its JSON still exists: otherwise the key is unknown, and later jobs with it end as
-- duplicates until it expires.
-- `heldbytes` no longer counts what is removed from delay and holding. Of a job without a body the bytes are unknown;
-- they stay counted until no job waits.

local bodyKey, metaKey, leaseKey, delayKey, deadKey = KEYS[1], KEYS[2], KEYS[6], KEYS[7], KEYS[8]
local deadInfoKey, wakeKey, statKey, suspectsKey, holdingKey = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local endedKey, heldBytesKey, repliesKey, fixedKeys = KEYS[14], KEYS[15], KEYS[16], 16
local readyKeys = {KEYS[3], KEYS[4], KEYS[5]}
local repairs, batchCount, onceCount, fixedArguments = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 3
local frontier = {bytes = heldBytesKey, body = bodyKey}

-- Lists whose jobs count as ready.
local waitingKeys = {readyKeys[1], readyKeys[2], readyKeys[3], suspectsKey}
local lost = 'The record of the job in the queue was incomplete.'
local function examine(id)
  local j = {id = id, body = redis.call('HEXISTS', bodyKey, id) == 1, places = {}, batch = '', count = 1}
  j.once, j.target = '', ''
  local m = redis.call('HGET', metaKey, id)
  if m then
    local _, _, w, p, b, _, d, h = unpackMeta(m)
    j.batch, j.count = b or '', sourceCount(d or '')
    if w and string.sub(w, 1, 1) == '#' then j.entry = holdingEntry(h, p, string.sub(w, 2), id) end
    if p == '1' or p == '2' or p == '3' then j.list = readyKeys[tonumber(p)] end
  end
  if redis.call('ZSCORE', leaseKey, id) then j.places[1] = 'lease' end
  if redis.call('ZSCORE', delayKey, id) then j.places[#j.places + 1] = 'delay' end
  if j.entry and redis.call('ZSCORE', holdingKey, j.entry) then j.places[#j.places + 1] = 'held' end
  for _, key in ipairs(waitingKeys) do
    for _ = 1, #redis.call('LPOS', key, id, 'COUNT', 0) do j.places[#j.places + 1] = 'ready' end
  end
  j.dead = redis.call('ZSCORE', deadKey, id)
  if j.body and j.list then
    if #j.places == 0 then j.kind = 'orphan' elseif #j.places > 1 then j.kind = 'two_states' end
  elseif j.body then
    j.kind = 'without_meta'
    j.json = redis.call('HGET', bodyKey, id)
    local read, job = pcall(cjson.decode, j.json)
    if read and type(job) == 'table' then
      if j.batch == '' and type(job.batch) == 'string' then j.batch = job.batch end
      if j.batch == '' and not job.requeuedFrom then j.batch = string.match(id, '^([^/]+)/') or '' end
      j.labels = labelsOf(job, j.json)
      if type(job.key) == 'string' then j.once = job.key end
      if type(job.reply) == 'table' and type(job.reply.list) == 'string' then
        local lifetime = tonumber(job.reply.ttl) or 3600
        if lifetime >= 1 and lifetime <= 604800 then j.target = math.floor(lifetime) .. '\0' .. job.reply.list end
      elseif type(job.reply) == 'table' and type(job.reply.webhook) == 'string' then
        j.target = 'webhook\0' .. job.reply.webhook
      end
      if type(job.sources) == 'table' then j.count = math.max(#job.sources, 1) end
    end
  elseif m then
    j.kind = 'without_body'
  elseif #j.places > 0 then
    j.kind = 'without_job'
  end
  return j
end
local function removeFromReady(id)
  for _, key in ipairs(waitingKeys) do redis.call('LREM', key, 0, id) end
end
local function removeFromDelay(j)
  if redis.call('ZREM', delayKey, j.id) == 1 then countHeldBytes(frontier, {j.id}, -1, j.count - 1) end
end
local function removeFromHolding(j)
  if j.entry and redis.call('ZREM', holdingKey, j.entry) == 1 then countHeldBytes(frontier, {j.id}, -1, j.count - 1) end
end
local function remove(j)
  removeFromReady(j.id)
  redis.call('ZREM', leaseKey, j.id)
  removeFromDelay(j)
  removeFromHolding(j)
  redis.call('HDEL', bodyKey, j.id)
  redis.call('HDEL', metaKey, j.id)
end
local function fail(j, number, once)
  if j.dead then return end
  if j.json then
    local dead = {attempts = 0, code = 'orphan', message = lost, job = j.json}
    if j.batch ~= '' then dead.batch = j.batch end
    local letter = cjson.encode(dead)
    if j.labels then letter = string.sub(letter, 1, -2) .. ',"labels":' .. j.labels .. '}' end
    addDeadLetter(deadKey, deadInfoKey, statKey, j.id, letter)
  end
  redis.call('HINCRBY', statKey, 'failed', j.count)
  addToGauge(statKey, 'packed', 1 - j.count)
  local outcome = refusedOutcome(j.id, j.json or '', 'failed', 'orphan', lost, j.labels)
  if once > 0 then endOnce(onceKey(once, onceCount), j.id, 'failed', outcome) end
  -- The sources of a pack whose JSON is lost are counted, but not known.
  local outcomes, keys = {outcome}, {j.id}
  if j.count > 1 and j.json then outcomes, keys = refusedOutcomes(j.id, j.json, 'failed', 'orphan', lost) end
  for i, text in ipairs(outcomes) do addReply(repliesKey, statKey, j.target, keys[i], text) end
  local batchKey, resultsKey, knownKey = batchKeys(fixedKeys, number)
  if number > 0 and redis.call('EXISTS', batchKey) == 1 then
    finishOrFlagDamaged(statKey, endedKey, batchKey, resultsKey, knownKey, {failed = j.count}, outcomes)
  end
end
local function repair(j, number, once)
  if j.kind == 'orphan' then
    redis.call('RPUSH', j.list, j.id)
    redis.call('LPUSH', wakeKey, '1')
    redis.call('LTRIM', wakeKey, 0, 255)
  elseif j.kind == 'two_states' then
    removeFromReady(j.id)
    if j.places[1] == 'lease' then removeFromDelay(j) end
    if j.places[1] ~= 'held' then removeFromHolding(j) end
    if j.places[1] == 'ready' then redis.call('RPUSH', j.list, j.id) end
  elseif j.kind then
    remove(j)
    if j.kind ~= 'without_job' then fail(j, number, once) end
  end
end
local faults = {}
for i = fixedArguments + batchCount + 1, #ARGV, 3 do
  local j, number, once = examine(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local aliveAndDead = j.body and j.list and j.dead
  local failing = j.kind == 'without_meta' or j.kind == 'without_body'
  if repairs == '1' then
    if failing and j.batch ~= (number > 0 and ARGV[fixedArguments + number] or '') then
      j.kind = nil
    else
      repair(j, number, once)
    end
    if aliveAndDead then
      deleteDeadLetters(deadKey, deadInfoKey, statKey, {j.id})
    end
  end
  local places = table.concat(j.places, ' + ')
  if j.kind then faults[#faults + 1] = {j.id, j.kind, places, j.batch, j.once} end
  if aliveAndDead then faults[#faults + 1] = {j.id, 'undead', places, j.batch, j.once} end
end
return faults
