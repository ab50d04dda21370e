-- webhookPrelude: functions about outcomes that are sent by HTTP. It uses `queuePrelude`, and reads no KEYS and ARGV
-- of its own.

-- Webhooks: outcomes that wait for an HTTP request of the leader. They have five keys: `webhooks`, a hash with the
-- text of each by its number · `webhookqueue`, a sorted set of members with the score 0, so that those of one host are
-- in the order in which they are due · `webhookhosts`, a sorted set: host to the ms of its next request, plus 10^14 for
-- each number of its class, so that each class has an order of its own · `webhookstate`, a hash: host to its bytes,
-- `<host>\0` to its failures in a row and the ms until which its circuit breaker is open, `0 0` after an answer and
-- `0 0 s` after a slow one, and the empty name to the bytes of all hosts · `webhookgood`, a sorted set: host to the ms
-- of its last quick answer, of the last day and at most 10,000 hosts.

-- The classes of hosts: those that answer quickly, those that answer slowly or have not answered yet, and those whose
-- last request failed. Each has places of its own, so that no class keeps the others waiting.
local quickClass, unprovenClass, failingClass, classStep = 0, 1, 2, 100000000000000

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

-- The class of a host, the ms until which its circuit breaker is open, its failures in a row, and whether it may have
-- several requests at a time: its last one was answered, and not before it had its present webhooks.
local function webhookCircuit(stateKey, goodKey, host)
  local state = redis.call('HGET', stateKey, host .. '\0') or ''
  local failures, opened, slow = string.match(state, '^(%d+) (%d+) ?(s?)$')
  failures, opened = tonumber(failures), tonumber(opened)
  if not failures then
    return redis.call('ZSCORE', goodKey, host) and quickClass or unprovenClass, 0, 0, false
  elseif failures > 0 then
    return failingClass, opened, failures, false
  end
  return slow == 's' and unprovenClass or quickClass, opened, 0, true
end

-- The score of a host whose next request is due then.
local function webhookTurn(class, due) return string.format('%.0f', class * classStep + due) end

-- Remembers that a host has answered quickly, or forgets it.
local function setGoodWebhook(goodKey, host, isGood)
  if not isGood then
    redis.call('ZREM', goodKey, host)
    return
  end
  local t = now()
  redis.call('ZADD', goodKey, t, host)
  redis.call('ZREMRANGEBYSCORE', goodKey, '-inf', t - 86400000)
  redis.call('ZREMRANGEBYRANK', goodKey, 0, -10001)
  redis.call('PEXPIRE', goodKey, 86400000)
end

-- Sets the class of a host and the time of its next request: that of its first webhook, and not before its circuit
-- breaker lets one pass, nor before now: a host with many old webhooks takes its turn behind the hosts that are due
-- already. A host without webhooks is forgotten, except for its last quick answer.
local function setWebhookTurn(queueKey, hostsKey, stateKey, goodKey, host)
  local first = redis.call('ZRANGEBYLEX', queueKey, '[' .. host .. '\0', '(' .. host .. '\1', 'LIMIT', 0, 1)[1]
  if first then
    local _, due = unpackWebhook(first)
    local class, opened = webhookCircuit(stateKey, goodKey, host)
    redis.call('ZADD', hostsKey, webhookTurn(class, math.max(due or 0, opened, now())), host)
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
