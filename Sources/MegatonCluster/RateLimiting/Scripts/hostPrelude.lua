-- hostPrelude: functions that the scripts of host limits and of the circuit breaker share. The source of each gets
-- those that it uses, which `LuaPrelude` finds. It reads no KEYS and ARGV of its own.
--
-- A host's state is one field of the hash `rate`, twelve numbers: `tat` µs, when the next request is due by the rate
-- (GCRA, the leaky bucket as a meter: ATM Forum TM 4.1, appendix I), without a rate when the last one began · `since`
-- ms, since when the host has failed (`releasePermit`), otherwise 0 · `factor` 1/64 to 1, remaining fraction of the
-- limits · `blocked` ms, no request before that time · `failures` consecutive ones · `open` ms, circuit open until then
-- · `halved` ms, when the factor was last halved · `mean` µs, mean duration of a request · `path` of the last 429 or
-- 503, as a number, 0 for none · `counts` ms, time until which one from another path concerns the whole host · `others`
-- whose turn it is if jobs of several shards wait: 1 if some of another shard do, 2 if the jobs of this shard have left
-- the last turn to them, 3 for both · `heard` 1 if it has ever answered, also with a failure, 2 if only first bytes of
-- it have arrived. Earlier versions write eleven numbers: it may have answered. While `failures` is not 0, a word may
-- follow that begins with a letter: `last`, the reason of the last failure (`HostFailure`). Earlier versions ignore it,
-- and store the state without it.

-- The time in microseconds and in milliseconds.
local function now()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end

-- The state of a host from its text.
local function parseHost(text)
  local s = {}
  for number in string.gmatch(text, '[^ ]+') do s[#s + 1] = tonumber(number) end
  return {
    isNew = #s == 0, tat = s[1] or 0, since = s[2] or 0, factor = s[3] or 1, blocked = s[4] or 0, failures = s[5] or 0,
    open = s[6] or 0, halved = s[7] or 0, mean = s[8] or 200000, path = s[9] or 0, counts = s[10] or 0,
    others = s[11] or 0, heard = s[12] or (#s == 0 and 0 or 1), last = string.match(text, ' (%a[^ ]*)$') or ''
  }
end

-- A limit of a host, its concurrency or the failures that open its circuit: at most `first` before its first answer. A
-- list from the web has hosts that accept connections and never answer; each request occupies a place of a worker.
-- First bytes lift the limit on the concurrency: `acquirePermit` applies it only while `heard` is 0.
local function limited(s, limit, first)
  return s.heard ~= 1 and math.min(limit, math.max(first, 1)) or limit
end

-- The state of a host, which is new if nothing is known of it.
local function readHost(rateKey, host)
  return parseHost(redis.call('HGET', rateKey, host) or '')
end

-- Whether a host gets requests without restrictions: it may be forgotten.
local function isUnrestricted(s, us, ms)
  return s.open <= ms and s.blocked <= ms and s.failures == 0 and s.factor == 1 and s.tat <= us
end

-- Stores the state of a host. At most 50,000 hosts are remembered, about 7 MB: a new one replaces the first of 32
-- random ones that is not restricted, or if all are, the one with the fewest failures, which is then treated as new.
local function storeHost(rateKey, host, s)
  if s.isNew and redis.call('HLEN', rateKey) >= 50000 then
    local us, ms = now()
    local some = redis.call('HRANDFIELD', rateKey, 32, 'WITHVALUES')
    local victim, fewest = some[1], math.huge
    for i = 1, #some, 2 do
      local other = parseHost(some[i + 1])
      if isUnrestricted(other, us, ms) then
        victim = some[i]
        break
      end
      -- An open circuit is worth more than any number of failures before it opens.
      local worth = other.failures + (other.open > ms and 1000 or 0)
      if worth < fewest then victim, fewest = some[i], worth end
    end
    redis.call('HDEL', rateKey, victim)
  end
  local last = s.failures > 0 and s.last ~= '' and ' ' .. s.last or ''
  redis.call('HSET', rateKey, host, string.format('%.0f %.0f %.6f %.0f %d %.0f %.0f %.0f %.0f %.0f %d %d', s.tat,
             s.since, s.factor, s.blocked, s.failures, s.open, s.halved, s.mean, s.path, s.counts, s.others, s.heard)
             .. last)
end
