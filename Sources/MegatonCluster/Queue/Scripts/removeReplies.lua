#!lua flags=allow-oom
-- removeReplies: deletes the first entries of the outbox, which the leader has delivered.
--
-- KEYS 1 leader · 2 epoch · 3 replies · 4 stat
-- ARGV 1 caller's name · 2 epoch · 3 number of entries · 4 the last of them · 5 number of outcomes that are lost, as
--      their list was full or is no list
-- Returns how many were deleted: all, or none if the entries are not those that the caller has read, as Redis has
--      returned to an earlier state; or the error NOTLEADER. The bytes of the outbox no longer count then.

local leaderKey, epochKey, repliesKey, statKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local caller, epoch, number, last, lost = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
local entries, bytes = redis.call('LRANGE', repliesKey, 0, number - 1), 0
if #entries < number or entries[number] ~= last then return 0 end
for _, entry in ipairs(entries) do bytes = bytes + #entry end
redis.call('LTRIM', repliesKey, number, -1)
-- An empty outbox has no bytes, whatever was counted: an operator may have deleted entries.
if redis.call('EXISTS', repliesKey) == 0 then bytes = tonumber(redis.call('HGET', statKey, 'reply_bytes')) or bytes end
addToGauge(statKey, 'reply_bytes', -bytes)
addToGauge(statKey, 'outcome_bytes', -bytes)
if lost > 0 then redis.call('HINCRBY', statKey, 'replies_dropped', lost) end
return number
