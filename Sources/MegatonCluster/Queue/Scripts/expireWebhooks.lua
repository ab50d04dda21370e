#!lua flags=allow-oom
-- expireWebhooks: drops webhooks that have waited too long, also if no coordinator has a key to send them.
--
-- KEYS 1 webhooks · 2 webhookqueue · 3 webhookhosts · 4 webhookstate · 5 stat · 6 webhookgood
-- ARGV 1 age in ms at which a webhook has expired · 2 maximum number to examine · 3 maximum number to drop · 4 the
--      member of the queue behind which to begin, empty for the first
-- Returns the last member that was examined, empty if none is behind it; then three for each webhook that was dropped:
--      host · attempts · key of its job.
-- After: the dropped ones are nowhere, and `stat` counts them. A webhook that is being sent, or whose next attempt is
-- not due yet, stays until it is due.

local webhooksKey, queueKey, hostsKey, stateKey, statKey, goodKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local age, examinedAtOnce, droppedAtOnce, start = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local t, reply, hosts, dropped = now(), {''}, {}, 0
local members = redis.call(
  'ZRANGEBYLEX', queueKey, start == '' and '-' or '(' .. start, '+', 'LIMIT', 0, examinedAtOnce
)
if #members == examinedAtOnce then reply[1] = members[#members] end
for i, member in ipairs(members) do
  local host, due, since, attempts, id = unpackWebhook(member)
  if not host then
    redis.call('ZREM', queueKey, member)
  elseif due <= t and t - since > age then
    if dropped == droppedAtOnce then
      reply[1] = members[i - 1]
      break
    end
    dropped = dropped + 1
    hosts[host] = true
    redis.call('ZREM', queueKey, member)
    local text = redis.call('HGET', webhooksKey, id)
    if text then
      endWebhook(webhooksKey, stateKey, statKey, host, id, 'dropped')
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = host, attempts, string.match(text, '^%Z*%z(%Z*)') or ''
    end
  end
end
for host in pairs(hosts) do setWebhookTurn(queueKey, hostsKey, stateKey, goodKey, host) end
return reply
