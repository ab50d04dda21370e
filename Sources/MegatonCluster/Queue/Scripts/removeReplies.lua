#!lua flags=allow-oom
-- removeReplies: deletes the first entries of the outbox, which the leader has delivered, moves those for webhooks to
-- the queue of webhooks, and those for lists that cannot be reached to lists of their own.
--
-- KEYS 1 leader · 2 epoch · 3 replies · 4 stat · 5 webhooks · 6 webhookqueue · 7 webhookhosts · 8 webhookstate ·
--      9 webhookgood · 10 away, then away:<list> for each list that cannot be reached
-- ARGV 1 caller's name · 2 epoch · 3 number of entries · 4 the last of them · 5 number of outcomes that are lost, as
--      their list was full or is no list · 6 for each entry that moves to such a list, in order: its number, `:` and
--      the number of the list, with spaces between; then two for each entry for a webhook: its number among the
--      entries · host
-- Returns the numbers of the entries for webhooks that were dropped, as there is no room for them; nothing if no entry
--      was deleted, as the entries are not those that the caller has read: Redis has returned to an earlier state; or
--      the error NOTLEADER. The bytes of entries that were moved still count in `outcome_bytes`, the others no longer.
-- One host has at most an eighth of the limit on outcomes, and all together a half: a dead host must not keep the
-- outcomes of others out.

local leaderKey, epochKey, repliesKey, statKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awayKey, awayLists = KEYS[10], 10
local webhooksKey, queueKey, hostsKey, stateKey, goodKey = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local caller, epoch, number, last, lost = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local moves, firstWebhook = ARGV[6], 7
local mark = 'webhook\0'

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
local entries, bytes = redis.call('LRANGE', repliesKey, 0, number - 1), 0
if #entries < number or entries[number] ~= last then return false end
for _, entry in ipairs(entries) do bytes = bytes + #entry end
redis.call('LTRIM', repliesKey, number, -1)
local movedBytes = 0
for place, list in string.gmatch(moves, '(%d+):(%d+)') do
  local entry = entries[tonumber(place)]
  redis.call('RPUSH', KEYS[awayLists + tonumber(list)], entry)
  redis.call('ZADD', awayKey, 0, string.match(entry, '^[^%z]*%z([^%z]*)%z'))
  movedBytes = movedBytes + #entry
end
-- An empty outbox has no bytes, whatever was counted: an operator may have deleted entries.
if redis.call('EXISTS', repliesKey) == 0 then bytes = tonumber(redis.call('HGET', statKey, 'reply_bytes')) or bytes end
addToGauge(statKey, 'reply_bytes', -bytes)
addToGauge(statKey, 'outcome_bytes', movedBytes - bytes)
if lost > 0 then redis.call('HINCRBY', statKey, 'replies_dropped', lost) end

local dropped, t = {}, now()
local limit = tonumber(redis.call('HGET', statKey, 'outcome_limit')) or 1073741824
for i = firstWebhook, #ARGV, 2 do
  local place, host = tonumber(ARGV[i]), ARGV[i + 1]
  local text = string.sub(entries[place], #mark + 1)
  local own = tonumber(redis.call('HGET', stateKey, host)) or 0
  local all = tonumber(redis.call('HGET', stateKey, '')) or 0
  if own + #text > limit / 8 or all + #text > limit / 2 then
    dropped[#dropped + 1] = place
    redis.call('HINCRBY', statKey, 'webhooks_dropped', 1)
  else
    local id = redis.call('HINCRBY', statKey, 'webhooks', 1)
    local class, opened = webhookCircuit(stateKey, goodKey, host)
    redis.call('HSET', webhooksKey, id, text)
    redis.call('ZADD', queueKey, 0, webhookMember(host, t, t, 0, id))
    redis.call('ZADD', hostsKey, 'LT', webhookTurn(class, math.max(t, opened)), host)
    redis.call('HINCRBY', stateKey, host, #text)
    redis.call('HINCRBY', stateKey, '', #text)
    redis.call('HINCRBY', statKey, 'outcome_bytes', #text)
  end
end
return dropped
