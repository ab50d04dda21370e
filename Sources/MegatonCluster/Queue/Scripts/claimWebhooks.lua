#!lua flags=allow-oom
-- claimWebhooks: leases webhooks that are due to the leader, which sends them.
--
-- KEYS 1 leader · 2 epoch · 3 webhooks · 4 webhookqueue · 5 webhookhosts · 6 webhookstate · 7 webhookgood
-- ARGV 1 caller's name · 2 epoch · 3 maximum number of webhooks · 4 maximum number of requests, those in flight
--      included, to hosts that have not answered yet, answer slowly, or whose last request failed · 5 maximum number
--      of requests to one host · 6 lease, ms · 7 age in ms at which a webhook has expired; then two for each host with
--      requests in flight: host · number
-- Returns ms after which there may be more, -1 if no other waits; then three for each webhook: its member in the queue,
--      which `settleWebhook` needs · ms since it came · its text; nothing if another process leads.
-- After: each of them is due again when its lease has ended, unless it is settled before, and has one more attempt. The
-- exception are expired ones, which are to be dropped and not to be sent: at most 16, whatever the limits on requests.
-- A host that has not answered since it has webhooks, or whose last request failed, gets one request at a time. Hosts
-- of a class are looked at in the order of their turns, at most 128, and only while the class has places: failing ones
-- have three quarters of the number in ARGV 4 at most. So a class without places costs nothing, and the end of a
-- request is the time to ask again. The reply has at most 1 MiB of texts, or one.

local leaderKey, epochKey, webhooksKey = KEYS[1], KEYS[2], KEYS[3]
local queueKey, hostsKey, stateKey, goodKey = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local caller, epoch, places, unproven = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local perHost, lease, longest, firstHost = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), 8
local examinedHosts, expiredAtOnce, maximumBytes = 128, 16, 1048576

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then return false end
local t, reply, inFlight = now(), {0}, {}
-- `isCut`: the reply is full. `hasMore`: there may be more at once.
local expired, bytes, isCut, hasMore = 0, 0, false, false
local failing = math.max(math.floor(unproven * 3 / 4), 1)
-- Takes a number of places of a class.
local function occupy(class, number)
  if class ~= quickClass then unproven = unproven - number end
  if class == failingClass then failing = failing - number end
end
-- The number of requests that the class may have now.
local function room(class)
  if class == quickClass then return places end
  return math.min(places, unproven, class == failingClass and failing or unproven)
end
for i = firstHost, #ARGV, 2 do
  local host, number = ARGV[i], tonumber(ARGV[i + 1])
  inFlight[host] = number
  occupy(webhookCircuit(stateKey, goodKey, host), number)
end
local function claim(host, member, since, attempts, id, text)
  local leased = webhookMember(host, t + lease, since, attempts, id)
  redis.call('ZREM', queueKey, member)
  redis.call('ZADD', queueKey, 0, leased)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = leased, t - since, text
  bytes = bytes + #text
end
-- Claims the webhooks of a host that are due.
local function claimAll(host, class, free)
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
      occupy(class, 1)
      claim(host, member, since, attempts + 1, id, text)
    end
  end
  setWebhookTurn(queueKey, hostsKey, stateKey, goodKey, host)
end
local wait
for class = failingClass, quickClass, -1 do
  local first = class * classStep
  local hosts = {}
  if room(class) > 0 and not isCut then
    hosts = redis.call('ZRANGEBYSCORE', hostsKey, first, first + t, 'LIMIT', 0, examinedHosts)
  end
  for _, host in ipairs(hosts) do
    if room(class) <= 0 or isCut then break end
    local present, _, _, isProven = webhookCircuit(stateKey, goodKey, host)
    local free = math.min((isProven and perHost or 1) - (inFlight[host] or 0), room(class))
    if present ~= class then
      -- Its last quick answer was forgotten meanwhile.
      setWebhookTurn(queueKey, hostsKey, stateKey, goodKey, host)
      hasMore = true
    elseif free > 0 then
      claimAll(host, class, free)
    end
  end
  if #hosts == examinedHosts and room(class) > 0 then hasMore = true end
  local following = redis.call(
    'ZRANGEBYSCORE', hostsKey, string.format('(%.0f', first + t), string.format('(%.0f', first + classStep),
    'WITHSCORES', 'LIMIT', 0, 1
  )[2]
  if following then wait = math.min(wait or classStep, tonumber(following) - first - t) end
end
reply[1] = (isCut or hasMore) and 0 or wait or -1
return reply
