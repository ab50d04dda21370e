#!lua flags=allow-oom
-- rememberFailure: replaces the remembered failure of a key, without a flight.
--
-- KEYS 1 negative
-- ARGV 1 ms to remember, 0 to forget · 2 error, as for `failFlight`; empty after a success · 3 `b` or `k`, as for
--      `failFlight`
-- Returns 1 if a failure is remembered now, else 0.
--
-- A remembered failure of the kind `b` stays, unless this one has the same kind, or there is none.

local negativeKey = KEYS[1]
local ms, failure, kind = ARGV[1], ARGV[2], ARGV[3]

if failure ~= '' and kind ~= 'b' and
   string.find(redis.call('GET', negativeKey) or '', '^{"at":%d+,"token":%d+,"kind":"b"') then
  return 1
end
if tonumber(ms) <= 0 then
  redis.call('UNLINK', negativeKey)
  return 0
end
local t = redis.call('TIME')
local at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
redis.call('SET', negativeKey, '{"at":' .. at .. ',"token":0,"kind":"' .. kind .. '",' ..
           string.sub(failure, 2), 'PX', ms)
return 1
