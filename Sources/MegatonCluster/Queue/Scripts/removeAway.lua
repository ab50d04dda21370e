#!lua flags=allow-oom
-- removeAway: deletes the first outcomes of a list that could not be reached, which the leader has delivered now.
--
-- KEYS 1 leader · 2 epoch · 3 away · 4 away:<list> · 5 stat
-- ARGV 1 caller's name · 2 epoch · 3 the list · 4 number of entries · 5 the last of them · 6 number of outcomes that
--      are lost, as their list was full or is no list
-- Returns the number of entries that are left; or the error NOTLEADER.
-- After: if the entries are still those that the caller has read, they are deleted and no longer counted. A list
-- without entries is not in `away` any more: later outcomes go to it directly.

local leaderKey, epochKey, awayKey, listKey, statKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local caller, epoch, list, number = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local last, lost = ARGV[5], tonumber(ARGV[6])

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
local entries, bytes = redis.call('LRANGE', listKey, 0, number - 1), 0
if number > 0 and #entries == number and entries[number] == last then
  for _, entry in ipairs(entries) do bytes = bytes + #entry end
  redis.call('LTRIM', listKey, number, -1)
  addToGauge(statKey, 'outcome_bytes', -bytes)
  if lost > 0 then redis.call('HINCRBY', statKey, 'replies_dropped', lost) end
end
local left = redis.call('LLEN', listKey)
if left == 0 then redis.call('ZREM', awayKey, list) end
return left
