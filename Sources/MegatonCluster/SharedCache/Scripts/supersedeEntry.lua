#!lua flags=allow-oom
-- supersedeEntry: deletes an entry that is out of date, with the remembered failure of its key, and refuses the results
-- of flights that began before.
--
-- KEYS 1 entry · 2 flight · 3 negative
-- ARGV 1 when the origin was asked for what is now valid, seconds since 1970, or empty if no entry is valid
--      · 2 ms for which older results are refused · 3 channel of deletions · 4 message
-- Returns {1 if an entry was deleted, 1 if a failure was forgotten}. An entry whose origin was asked later stays.
-- After: if there was an entry or a flight, the entry has a token (`t`) newer than both, a version (`v`) and no bytes,
-- which no lookup finds, and which expires. A deletion is published, for near caches that hold a copy.

local entryKey, flightKey, negativeKey = KEYS[1], KEYS[2], KEYS[3]
local fetched, refusalTime, deletions, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local forgotten = redis.call('UNLINK', negativeKey)
local e = redis.call('HMGET', entryKey, 'm', 't', 'v')
local version = e[3] or string.match(e[1] or '', '"fetched":([%d.eE+-]+)')
if fetched ~= '' and (tonumber(version or '') or 0) > tonumber(fetched) then return {0, forgotten} end
local began = redis.call('HGET', flightKey, 't')
if not e[2] and not began then return {0, forgotten} end
local t = redis.call('TIME')
local last = math.max(tonumber(e[2] or '0'), tonumber(began or '0'))
redis.call('UNLINK', entryKey)
-- Without a valid version, also a caller that has asked the origin before now brings nothing back.
local valid = fetched ~= '' and fetched or string.format('%.6f', t[1] + t[2] / 1000000)
redis.call('HSET', entryKey, 't', string.format('%.0f', math.max(t[1] * 1000000 + t[2], last + 1)), 'v', valid,
           'x', '0', 's', '0')
redis.call('PEXPIRE', entryKey, refusalTime)
if not e[1] then return {0, forgotten} end
redis.call('PUBLISH', deletions, message)
return {1, forgotten}
