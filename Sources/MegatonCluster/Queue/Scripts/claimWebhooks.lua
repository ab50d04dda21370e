#!lua flags=allow-oom
-- claimWebhooks: leases webhooks that are due to the leader, which sends them.
--
-- KEYS 1 leader · 2 epoch · 3 webhooks · 4 webhookqueue · 5 webhookhosts · 6 webhookstate
-- ARGV 1 caller's name · 2 epoch · 3 maximum number of webhooks · 4 maximum number of requests, those in flight
--      included, to hosts that have not answered yet, answer slowly, or whose last request failed · 5 maximum number
--      of requests to one host · 6 lease, ms · 7 age in ms at which a webhook has expired; then two for each host with
--      requests in flight: host · number
-- Returns ms after which there may be more, -1 if no other waits; then three for each webhook: its member in the queue,
--      which `settleWebhook` needs · ms since it came · its text; nothing if another process leads.
-- After: each of them is due again when its lease has ended, unless it is settled before, and has one more attempt. The
-- exception are expired ones, which are to be dropped and not to be sent: at most 16, whatever the limits on requests.
-- A host that has not answered yet or answers slowly, or whose last request failed, gets one request at a time. Hosts
-- are looked at in the order of their turns, at most 128, and one of these for which the limit on such hosts has no
-- room is put off for a second, or for 0.1 s if it has not failed: they keep no other from its turn. The reply has at
-- most 1 MiB of texts, or one.

local leaderKey, epochKey, webhooksKey = KEYS[1], KEYS[2], KEYS[3]
local queueKey, hostsKey, stateKey = KEYS[4], KEYS[5], KEYS[6]
local caller, epoch, places, failing = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local perHost, lease, longest, firstHost = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), 8
local examinedHosts, expiredAtOnce, maximumBytes = 128, 16, 1048576

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then return false end
local t, reply, inFlight = now(), {0}, {}
local expired, bytes, isCut = 0, 0, false
for i = firstHost, #ARGV, 2 do
  local host, number = ARGV[i], tonumber(ARGV[i + 1])
  inFlight[host] = number
  local _, _, hasAnswered = webhookCircuit(stateKey, host)
  if not hasAnswered then failing = failing - number end
end
local function claim(host, member, since, attempts, id, text)
  local leased = webhookMember(host, t + lease, since, attempts, id)
  redis.call('ZREM', queueKey, member)
  redis.call('ZADD', queueKey, 0, leased)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = leased, t - since, text
  bytes = bytes + #text
end
local hosts = redis.call('ZRANGEBYSCORE', hostsKey, '-inf', t, 'LIMIT', 0, examinedHosts)
for _, host in ipairs(hosts) do
  if places <= 0 or isCut then break end
  local failures, _, hasAnswered = webhookCircuit(stateKey, host)
  local isFailing = not hasAnswered
  local free = math.min((hasAnswered and perHost or 1) - (inFlight[host] or 0), places)
  if isFailing and failing <= 0 then
    redis.call('ZADD', hostsKey, t + (failures > 0 and 1000 or 100), host)
  elseif free > 0 then
    local due = string.format('%014d', t + 1)
    local members = redis.call(
      'ZRANGEBYLEX', queueKey, '[' .. host .. '\0', '(' .. host .. '\0' .. due, 'LIMIT', 0, free + expiredAtOnce
    )
    for _, member in ipairs(members) do
      local _, _, since, attempts, id = unpackWebhook(member)
      local text = id and redis.call('HGET', webhooksKey, id)
      if not text then
        redis.call('ZREM', queueKey, member)
      elseif bytes > 0 and bytes + #text > maximumBytes then
        isCut = true
        break
      elseif t - since > longest then
        if expired == expiredAtOnce then
          isCut = true
          break
        end
        expired = expired + 1
        claim(host, member, since, attempts, id, text)
      elseif free > 0 then
        free, places = free - 1, places - 1
        if isFailing then failing = failing - 1 end
        claim(host, member, since, attempts + 1, id, text)
      end
    end
    setWebhookTurn(queueKey, hostsKey, stateKey, host)
  end
end
local following = redis.call('ZRANGEBYSCORE', hostsKey, '(' .. t, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
-- Further hosts may be due. Those of this call have had their turns or were put off.
if #hosts == examinedHosts and places > 0 then isCut = true end
reply[1] = isCut and 0 or following and tonumber(following) - t or -1
return reply
