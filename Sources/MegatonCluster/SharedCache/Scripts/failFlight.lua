#!lua flags=allow-oom
-- failFlight: ends a flight without an entry, remembers the failure for a moment, and notifies the waiters, if there
-- are any.
--
-- KEYS 1 flight · 2 negative · 3 entry
-- ARGV 1 owner · 2 token · 3 ms to remember; 0 for the waiters alone, which have ten seconds; -1 leaves a remembered
--      failure as it is; -2 as well, but lets the waiters lead in parallel, as the entry cannot be stored
--      · 4 error, a JSON object with at least one field, or empty if ARGV 3 is negative
--      · 5 channel of the flight · 6 message
--      · 7 `1` if the entry of an earlier flight is no longer valid: it is deleted
--      · 8 `b` if the failure answers every request while it is remembered, else `k` · 9 channel of deletions
-- Returns `ok`, or `stale` if the owner no longer holds the flight.
-- After: the JSON has the fields `at` (ms), `token` and `kind` (ARGV 8, or `w` for the waiters alone) in front. A
-- deletion is published if there was an entry.
--
-- A remembered failure of the kind `b` was stored by a caller without a flight while this one was under way. It stays,
-- and answers the waiters too, unless this failure has the same kind.

local flightKey, negativeKey, entryKey = KEYS[1], KEYS[2], KEYS[3]
local owner, token, ms, failure, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local message, deletesEntry, kind, deletions = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

local f = redis.call('HMGET', flightKey, 'o', 't', 'w')
if f[1] ~= owner or f[2] ~= token then return 'stale' end
if ms ~= -1 and kind ~= 'b' and
   string.find(redis.call('GET', negativeKey) or '', '^{"at":%d+,"token":%d+,"kind":"b"') then
  ms = -1
end
if ms == 0 then
  redis.call('UNLINK', negativeKey)
  if f[3] then ms, kind = 10000, 'w' end
end
if ms > 0 then
  local t = redis.call('TIME')
  local at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  redis.call('SET', negativeKey, '{"at":' .. at .. ',"token":' .. token .. ',"kind":"' .. kind .. '",' ..
             string.sub(failure, 2), 'PX', ms)
end
if ms == -2 and f[3] then redis.call('SET', negativeKey, 'U', 'PX', 10000) end
if deletesEntry == '1' and redis.call('UNLINK', entryKey) == 1 then redis.call('PUBLISH', deletions, message) end
redis.call('UNLINK', flightKey)
if f[3] then redis.call('PUBLISH', channel, message) end
return 'ok'
