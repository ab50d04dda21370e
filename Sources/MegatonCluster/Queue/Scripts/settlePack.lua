#!lua flags=allow-oom
-- settlePack: ends sources of a pack for good, splits others off as jobs of their own, and decides about the rest.
--
-- KEYS 1 lease · 2 body · 3 meta · 4 stat · 5 dead · 6 deadinfo · 7 ended · 8 delay · 9-11 ready: high, normal, bulk ·
--      12 wake · 13 cancelled · 14 holding · 15 held · 16 pace · 17 heldbytes · 18 replies · 19 batch:<b> ·
--      20 results:<b> · 21 known:<b> (the last three not touched without a batch)
-- ARGV 1 worker · 2 id of the pack · 3 attempt · 4 number of sources that the pack had for the caller · 5 the rest:
--      `none`, `keep`, `ready`, `yield`, `hold` · 6 JSON of the rest, a smaller pack · 7 its number of sources ·
--      8 host · 9 ms until that takes another request · 10 µs from one request to the next · 11 number of ends ·
--      12 number of splits · 13 where the outcomes are sent (`addReply`), otherwise ``; four for each end: key of the
--      source · `done`, `failed` or `cancelled` · outcome as JSON · dead letter as JSON, if it failed · seven for each
--      split: key · JSON · digest · host · stalls · number of free attempts · ms after which it is due, 0 if it is
--      ready, -1 if it is due now among the delayed jobs · pairs of counter and number, added to the batch
-- Returns the same as `settle` for one job.
-- After `ok`: each of the ended sources is counted once, and is in `dead` if it failed; each split source is a job of
-- its own, with the attempt of the pack; its meta has a digest that counts its deaths. The rest is still leased
-- (`keep`), ready in front of all others (`ready`) or behind them (`yield`), or held, without a counted attempt. After
-- `damaged`: the same, but the batch may not have counted.
-- A repeated call changes nothing: the number of sources has changed since, or the lease is no longer the worker's. It
-- returns `ok` if the rest was kept.
-- A split job whose key is alive is another job's: it fails as `id_conflict`.
-- The sources of packs whose worker has died may be thousands. As ready jobs they would fill the window, so that no
-- intake is read until they have ended; the delayed jobs that are due fill half of the places (`claim`). Sources that
-- are split off for idle workers are ready at once: a worker splits off more only when these were claimed.
-- Bounded by the caller: at most 256 sources, and 512 KiB of those that end or are split off, or one, beside the rest.
-- A pack that its worker cannot read ends in one call, of at most 2 MiB.

local leaseKey, bodyKey, metaKey, statKey, deadKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadInfoKey, endedKey, delayKey, wakeKey, cancelledKey = KEYS[6], KEYS[7], KEYS[8], KEYS[12], KEYS[13]
local readyKeys = {KEYS[9], KEYS[10], KEYS[11]}
local holdingKey, heldKey, paceKey, heldBytesKey = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local repliesKey, batchKey, resultsKey, knownKey = KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local worker, id, attempt, known = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local rest, restJSON, restCount, host = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local hostPause, hostInterval = tonumber(ARGV[9]), ARGV[10]
local endCount, splitCount, target, firstEnd = tonumber(ARGV[11]), tonumber(ARGV[12]), ARGV[13], 14
local firstSplit = firstEnd + 4 * endCount
local firstPair = firstSplit + 7 * splitCount

local m = redis.call('HGET', metaKey, id)
if not m then return 'gone' end
local a, s, w, p, b, f, d, h = unpackMeta(m)
if a ~= attempt or w ~= worker then return 'fenced' end
if not redis.call('ZSCORE', leaseKey, id) then return 'nolease' end
local count = sourceCount(d)
if count ~= known then return rest == 'keep' and count == restCount and 'ok' or 'gone' end

local t, tokens = now(), 0
local frontier = openFrontier(holdingKey, heldKey, paceKey, heldBytesKey, bodyKey)
local isCancelled = b ~= '' and redis.call('SISMEMBER', cancelledKey, b) == 1
local function makeReady(key, goesLast)
  redis.call(goesLast and 'LPUSH' or 'RPUSH', readyKeys[tonumber(p)], key)
  tokens = tokens + 1
end
if rest == 'keep' then
  redis.call('HSET', bodyKey, id, restJSON)
  redis.call('HSET', metaKey, id, packMeta(a, s, w, p, b, f, '*' .. restCount, h))
else
  redis.call('ZREM', leaseKey, id)
  redis.call('HDEL', bodyKey, id)
  redis.call('HDEL', metaKey, id)
end
if rest == 'ready' or rest == 'yield' or rest == 'hold' then
  redis.call('HSET', bodyKey, id, restJSON)
  if rest ~= 'hold' or isCancelled then
    redis.call('HSET', metaKey, id, packMeta(a, 0, readyMark(t), p, b, f + 1, '*' .. restCount, h))
    makeReady(id, rest == 'yield' and not isCancelled)
  else
    hold(frontier, metaKey, {{id = id, a = a, s = 0, p = p, b = b, f = f + 1, d = '*' .. restCount, h = host}}, 'a', t)
    redis.call('ZADD', heldKey, string.format('%.0f', t + hostPause), host)
    redis.call('HSET', paceKey, host, hostInterval)
    redis.call('HINCRBY', statKey, 'held', 1)
  end
end
addToGauge(statKey, 'packed', (rest == 'none' and 0 or restCount - 1) - (count - 1))

local counts, outcomes = {}, {}
local function finishSource(key, status, outcome)
  addReply(repliesKey, statKey, target, key, outcome)
  counts[status] = (counts[status] or 0) + 1
  outcomes[#outcomes + 1] = outcome
end
for at = firstEnd, firstSplit - 1, 4 do
  if ARGV[at + 1] == 'failed' then addDeadLetter(deadKey, deadInfoKey, statKey, ARGV[at], ARGV[at + 3]) end
  finishSource(ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
for at = firstSplit, firstPair - 1, 7 do
  local key, json, pause = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 6])
  if redis.call('HEXISTS', metaKey, key) == 1 then
    local message = 'id is "' .. submittedId(key) .. '", the id of another job that has not ended; give each source ' ..
      'of a pack an id of its own'
    local letter = {attempts = 0, code = 'id_conflict', message = message, job = json, batch = b ~= '' and b or nil}
    addDeadLetter(deadKey, deadInfoKey, statKey,
                  (string.find(key, '/', 1, true) and key or '/' .. key) .. '/' .. a .. '.' .. at, cjson.encode(letter))
    finishSource(key, 'failed', refusedOutcome(key, json, 'failed', 'id_conflict', message))
  else
    local isReady = pause == 0 or isCancelled
    redis.call('HSET', bodyKey, key, json)
    redis.call('HSET', metaKey, key, packMeta(a, tonumber(ARGV[at + 4]), isReady and readyMark(t) or '', p, b,
                                              tonumber(ARGV[at + 5]), ARGV[at + 2], ARGV[at + 3]))
    if isReady then
      makeReady(key)
    else
      redis.call('ZADD', delayKey, string.format('%.0f', t + math.max(pause, 0)), key)
      countHeldBytes(frontier, {key}, 1, 0)
      if pause > 0 then redis.call('HINCRBY', statKey, 'retried', 1) else tokens = tokens + 1 end
    end
  end
end
for _ = 1, math.min(tokens, 256) do redis.call('LPUSH', wakeKey, '1') end
if tokens > 0 then redis.call('LTRIM', wakeKey, 0, 255) end
for status, number in pairs(counts) do redis.call('HINCRBY', statKey, status, number) end
if b == '' then return 'ok' end
for pair = firstPair, #ARGV, 2 do counts[ARGV[pair]] = (counts[ARGV[pair]] or 0) + tonumber(ARGV[pair + 1]) end
local isCounted = finishOrFlagDamaged(statKey, endedKey, batchKey, resultsKey, knownKey, counts, outcomes)
return isCounted and 'ok' or 'damaged'
