#!lua flags=allow-oom
-- settle: ends jobs for good. Each is handled by itself: a refused one does not hold the others up.
--
-- KEYS 1 lease · 2 body · 3 meta · 4 stat · 5 dead · 6 deadinfo · 7 crashes · 8 isolating · 9 ended · 10 replies,
--      then for each batch concerned: batch:<b>, results:<b>, known:<b>; then once:<digest> of idempotency keys
-- ARGV 1 worker · 2 number of jobs · 3 number of idempotency keys, then for each job: id · attempt · `done`,
--      `failed` or `cancelled` · number of its batch, 0 for none · number of its idempotency key, 0 for none · the
--      outcome as JSON, if it has a batch, a key or a reply · the dead letter as JSON, if it failed · where its
--      outcome is sent (`addReply`), otherwise `` · number of pairs that follow · pairs of counter and number, added to
--      the batch
-- Returns for each job, in order, `ok` or one of: `gone` (already ended), `fenced` (another attempt runs), `nolease`
--      (the lease ran out; another attempt will run), `damaged` (it has ended as after `ok`, but a key or a counter of
--      its batch is damaged, so that the batch may not have counted it).
-- The source of a job that is done is no longer suspected. The outcome of a job with an idempotency key is kept with
-- the key; a cancelled job gives its key up. The outcome of a job with a reply is in the outbox `replies`, once.
-- After `ok`: the job is nowhere except, if it failed, in dead; its batch counts it, once. After `damaged`: the same,
-- except for the batch; jobs of other batches end as if that batch did not exist. After any other reply: nothing about
-- the job has changed.

local leaseKey, bodyKey, metaKey, statKey, deadKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadInfoKey, crashesKey, isolatingKey, endedKey, repliesKey = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local fixedKeys = 10
local worker, jobCount, onceCount, firstJob = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 4

-- The position of each job in ARGV.
local positions, ids, position = {}, {}, firstJob
for i = 1, jobCount do
  positions[i], ids[i] = position, ARGV[position]
  position = position + 9 + 2 * tonumber(ARGV[position + 8])
end
local metas = redis.call('HMGET', metaKey, unpack(ids))
local leases = redis.call('ZMSCORE', leaseKey, unpack(ids))
local results, ended, isEnded, stats, sources, cleared, packed = {}, {}, {}, {}, {}, {}, 0
-- The numbers of the jobs that leave more than a count: a dead letter, an outcome, or the end of a batch.
local further = {}
for i, at in ipairs(positions) do
  local id, attempt, status = ids[i], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local lastAttempt, holder, digest, count
  if metas[i] and not isEnded[id] then
    local a, _, w, _, _, _, d = unpackMeta(metas[i])
    lastAttempt, holder, digest, count = a, w, d, sourceCount(d or '')
  end
  if not lastAttempt then
    results[i] = 'gone'
  elseif lastAttempt ~= attempt or holder ~= worker then
    results[i] = 'fenced'
  elseif not leases[i] then
    results[i] = 'nolease'
  else
    results[i] = 'ok'
    isEnded[id] = true
    ended[#ended + 1] = id
    stats[status] = (stats[status] or 0) + count
    packed = packed + count - 1
    if digest ~= '' then
      sources[#sources + 1] = digest
      if status == 'done' then cleared[#cleared + 1] = digest end
    end
    if status == 'failed' or ARGV[at + 3] ~= '0' or ARGV[at + 4] ~= '0' or ARGV[at + 7] ~= '' then
      further[#further + 1] = {i = i, count = count}
    end
  end
end
local function removeEnded()
  callForAll('ZREM', leaseKey, ended)
  callForAll('HDEL', bodyKey, ended)
  callForAll('HDEL', metaKey, ended)
  addToGauge(statKey, 'packed', -packed)
  if #sources > 0 and redis.call('EXISTS', crashesKey) == 1 then
    callForAll('ZREM', crashesKey, cleared)
    callForAll('ZREM', isolatingKey, sources)
  end
  for status, count in pairs(stats) do redis.call('HINCRBY', statKey, status, count) end
end
if #further == 0 then
  removeEnded()
  return results
end

-- prelude: the functions that only the code below uses are inserted here, at no cost for the calls that end above.
local batches = {}
for _, job in ipairs(further) do
  local at = positions[job.i]
  local id, status, number, once = ids[job.i], ARGV[at + 2], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  if status == 'failed' then addDeadLetter(deadKey, deadInfoKey, statKey, id, ARGV[at + 6]) end
  if once > 0 then endOnce(onceKey(once, onceCount), id, status, ARGV[at + 5]) end
  addReply(repliesKey, statKey, ARGV[at + 7], id, ARGV[at + 5])
  if number > 0 then
    local batch = batches[number] or {counts = {}, outcomes = {}, ends = {}}
    batches[number] = batch
    batch.ends[#batch.ends + 1] = job.i
    batch.counts[status] = (batch.counts[status] or 0) + job.count
    for pair = at + 9, at + 7 + 2 * tonumber(ARGV[at + 8]), 2 do
      batch.counts[ARGV[pair]] = (batch.counts[ARGV[pair]] or 0) + tonumber(ARGV[pair + 1])
    end
    batch.outcomes[#batch.outcomes + 1] = ARGV[at + 5]
  end
end
removeEnded()
for number, batch in pairs(batches) do
  local batchKey, resultsKey, knownKey = batchKeys(fixedKeys, number)
  -- By now the jobs have ended: a batch that cannot count must not keep the others from counting theirs.
  if not finishOrFlagDamaged(statKey, endedKey, batchKey, resultsKey, knownKey, batch.counts, batch.outcomes) then
    for _, i in ipairs(batch.ends) do results[i] = 'damaged' end
  end
end
return results
