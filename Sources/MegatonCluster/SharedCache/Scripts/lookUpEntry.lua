#!lua flags=no-writes
-- lookUpEntry: looks an entry up without leading a flight.
--
-- KEYS 1 entry
-- ARGV 1 `1` to find stale entries too
-- Returns {ms for which the entry is still fresh, m, chunk 0}, or {} if there is no entry, or only a stale one that was
--      not asked for. The ms are negative for a stale entry. Changes nothing.

local entryKey = KEYS[1]
local allowsStale = ARGV[1]

local t = redis.call('TIME')
local e = redis.call('HMGET', entryKey, 'x', 'm', '0')
local left = math.floor(tonumber(e[1] or '0') - (t[1] * 1000 + t[2] / 1000))
if not e[2] or (left <= 0 and allowsStale ~= '1') then return {} end
return {left, e[2], e[3]}
