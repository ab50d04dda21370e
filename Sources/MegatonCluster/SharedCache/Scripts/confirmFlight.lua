#!lua flags=allow-oom
-- confirmFlight: ends a flight whose origin has confirmed the present entry, which gets other metadata and keeps its
-- bytes. `allow-oom`, as a full cache need not admit these bytes again.
--
-- KEYS 1 entry · 2 flight · 3 negative
-- ARGV 1 owner · 2 token · 3 ms until Redis deletes the entry · 4 ms for which it is fresh · 5 ms for which it may be
--      served while it is revalidated, including the fresh ones · 6 m · 7 channel of the flight · 8 message
--      · 9 channel of deletions · 10 checksum that the entry's m must have
-- Returns the same as `finishFlight`: `torn` if the entry is gone or has other bytes.

local entryKey, flightKey, negativeKey = KEYS[1], KEYS[2], KEYS[3]
local owner, token, lifetime, freshTime, staleTime = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local header, channel, message, deletions, checksum = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local f = redis.call('HMGET', flightKey, 'o', 't', 'w', 'r')
local e = redis.call('HMGET', entryKey, 'm', 't')
-- Of a caller whose lease has run out, another may have led since, and failed.
local failed = not f[1] and redis.call('GET', negativeKey)
local failedToken = failed and string.match(failed, '^{"at":%d+,"token":(%d+)')
if (f[1] and (f[1] ~= owner or f[2] ~= token)) or
   (e[2] and tonumber(e[2]) >= tonumber(token)) or
   (failedToken and tonumber(failedToken) > tonumber(token)) then
  if f[1] == owner and f[2] == token then
    redis.call('UNLINK', flightKey)
    if f[3] then redis.call('PUBLISH', channel, message) end
  end
  return 'stale'
end
local answer = 'torn'
if string.find(e[1] or '', checksum, 1, true) then
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  redis.call('HSET', entryKey, 'm', header, 't', token, 'x', string.format('%.0f', now + freshTime),
    's', string.format('%.0f', now + staleTime))
  redis.call('PEXPIRE', entryKey, lifetime)
  answer = 'ok'
end
redis.call('UNLINK', flightKey, negativeKey)
if f[4] then redis.call('PUBLISH', deletions, message) end
if f[3] or not f[1] then redis.call('PUBLISH', channel, message) end
return answer
