-- webhookPrelude: functions about outcomes that are sent by HTTP. It uses `queuePrelude`, and reads no KEYS and ARGV
-- of its own.

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
-- has webhooks, the last time included, and not slowly.
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
