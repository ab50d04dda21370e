#!lua flags=allow-oom
-- results: reads a batch's ledger and deletes the outcomes that its reader has received.
--
-- KEYS 1 results:<batch> · 2 batch:<batch>
-- ARGV 1 number of outcomes that the reader has in all · 2 maximum number of outcomes to return
-- Returns the next outcomes, oldest first: 1 MiB and at most 32 more, as Redis serves no other client meanwhile.
--      Or the error OTHERREADER, if another reader has received outcomes that this one has not.
--
-- After: the outcomes that the reader has are deleted, and `read` counts them; the rest stays, so that a lost reply
-- loses nothing and the call may be repeated.

local resultsKey, batchKey = KEYS[1], KEYS[2]
local kept, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local read = tonumber(redis.call('HGET', batchKey, 'read') or '0')
if kept < read then
  return redis.error_reply('OTHERREADER outcomes of this batch were read by another reader')
end
if kept > read then
  redis.call('LTRIM', resultsKey, kept - read, -1)
  redis.call('HSET', batchKey, 'read', kept)
end
local outcomes, bytes = {}, 0
while #outcomes < limit and bytes < 1048576 do
  local page = redis.call('LRANGE', resultsKey, #outcomes, math.min(#outcomes + 32, limit) - 1)
  if #page == 0 then break end
  for _, outcome in ipairs(page) do
    bytes = bytes + #outcome
    outcomes[#outcomes + 1] = outcome
  end
end
return outcomes
