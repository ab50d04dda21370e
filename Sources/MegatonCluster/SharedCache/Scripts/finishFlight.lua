#!lua
-- finishFlight: stores an entry, then ends its flight and notifies the waiters: data first. Without waiters, which is
-- the rule, nothing is published, because every worker would receive it. If the flight is gone, its waiters are
-- unknown, and its end is published in any case.
--
-- KEYS 1 entry · 2 flight · 3 temporary · 4 negative
-- ARGV 1 owner · 2 token · 3 keep: `0` nothing, `1` the chunks given here, `2` those in the temporary key
--      · 4 ms until Redis deletes the entry · 5 ms for which it is fresh · 6 ms for which it may be
--      served while it is revalidated, including the fresh ones · 7 m · 8 channel of the flight · 9 message
--      · 10 channel of deletions · 11 number of chunks
--      · 12… the chunks
-- Returns `ok`; or `stale`: a newer flight has begun, or has ended with an entry or a remembered failure, or the entry
--      was superseded, and nothing has changed but the temporary key and the caller's own flight, if it still had one;
--      or `torn`: chunks of the temporary key are missing, so that the flight has ended without an entry of its own.
-- After keeping nothing, the entry of an earlier flight is deleted too, and for ten seconds a mark lets the waiters
-- lead in parallel instead of one after the other. The deletion is published, for near caches that hold a copy, if
-- there was an entry; so is the replacement of an entry by a flight that `takeOverFlight` began.

local entryKey, flightKey, temporaryKey, negativeKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, token, keep, lifetime, freshTime = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local staleTime, header, channel, message, deletions = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local chunkCount, firstChunk = tonumber(ARGV[11]), 12

local f = redis.call('HMGET', flightKey, 'o', 't', 'w', 'r')
local stored = redis.call('HGET', entryKey, 't')
-- Of a caller whose lease has run out, another may have led since, and failed.
local failed = not f[1] and redis.call('GET', negativeKey)
local failedToken = failed and string.match(failed, '^{"at":%d+,"token":(%d+)')
if (f[1] and (f[1] ~= owner or f[2] ~= token)) or
   (stored and tonumber(stored) >= tonumber(token)) or
   (failedToken and tonumber(failedToken) > tonumber(token)) then
  redis.call('UNLINK', temporaryKey)
  if f[1] == owner and f[2] == token then
    redis.call('UNLINK', flightKey)
    if f[3] then redis.call('PUBLISH', channel, message) end
  end
  return 'stale'
end
local answer = 'ok'
local hadEntry = 0
if keep == '2' and redis.call('HLEN', temporaryKey) ~= chunkCount then
  redis.call('UNLINK', temporaryKey)
  answer = 'torn'
else
  hadEntry = redis.call('UNLINK', entryKey)
  if keep == '2' then redis.call('RENAME', temporaryKey, entryKey) end
  if keep == '1' then
    for i = firstChunk, #ARGV do redis.call('HSET', entryKey, i - firstChunk, ARGV[i]) end
  end
  if keep ~= '0' then
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('HSET', entryKey, 'm', header, 't', token, 'x', string.format('%.0f', now + freshTime),
      's', string.format('%.0f', now + staleTime))
    redis.call('PEXPIRE', entryKey, lifetime)
  end
end
redis.call('UNLINK', flightKey, negativeKey)
if keep == '0' then
  redis.call('SET', negativeKey, 'U', 'PX', 10000)
  if hadEntry == 1 then redis.call('PUBLISH', deletions, message) end
elseif f[4] then
  redis.call('PUBLISH', deletions, message)
end
if f[3] or not f[1] then redis.call('PUBLISH', channel, message) end
return answer
