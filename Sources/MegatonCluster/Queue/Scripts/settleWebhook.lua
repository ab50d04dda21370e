#!lua flags=allow-oom
-- settleWebhook: ends a claimed webhook, or puts it off for another attempt.
--
-- KEYS 1 webhooks · 2 webhookqueue · 3 webhookhosts · 4 webhookstate · 5 stat · 6 webhookgood
-- ARGV 1 its member in the queue · 2 `delivered`, `dropped`, `retry`, or `cancelled`: the caller ended the attempt,
--      which does not count · 3 ms until the next attempt, after `retry` and `cancelled` · 4 `1` if the host answered,
--      `s` if it did so slowly, `0` if it failed, otherwise `` · 5 number of failures in a row from which the circuit
--      breaker of a host is open · 6 ms for which it is open then, twice as long after each further failure · 7 the
--      longest such time, ms
-- Returns 1, or 0 if the webhook is not claimed under this member any more: nothing has changed then.
-- After `delivered` and `dropped`: it is nowhere, its bytes no longer count, and `stat` counts it.

local webhooksKey, queueKey, hostsKey, stateKey, statKey, goodKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local member, result, delay, answer = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local threshold, opening, longest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local host, _, since, attempts, id = unpackWebhook(member)
if not host or redis.call('ZREM', queueKey, member) == 0 then return 0 end
local t = now()
if result == 'retry' then
  redis.call('ZADD', queueKey, 0, webhookMember(host, t + delay, since, attempts, id))
elseif result == 'cancelled' then
  redis.call('ZADD', queueKey, 0, webhookMember(host, t + delay, since, math.max(attempts - 1, 0), id))
else
  endWebhook(webhooksKey, stateKey, statKey, host, id, result)
end
if answer ~= '' then setGoodWebhook(goodKey, host, answer == '1') end
if answer == '1' then
  redis.call('HSET', stateKey, host .. '\0', '0 0')
elseif answer == 's' then
  redis.call('HSET', stateKey, host .. '\0', '0 0 s')
elseif answer == '0' then
  local _, _, failures = webhookCircuit(stateKey, goodKey, host)
  local opened = 0
  failures = failures + 1
  if failures >= threshold then
    opened = t + math.min(opening * 2 ^ math.min(failures - threshold, 20), longest)
  end
  redis.call('HSET', stateKey, host .. '\0', string.format('%d %d', failures, opened))
end
setWebhookTurn(queueKey, hostsKey, stateKey, goodKey, host)
return 1
