#!lua flags=allow-oom
-- results: reads a batch's ledger and deletes the outcomes that its reader has received.
--
-- KEYS 1 results:<batch> · 2 batch:<batch> · 3 stat
-- ARGV 1 number of the last outcome that the reader has, 0 for none · 2 its SHA-1 in hex, `` if unknown · 3 maximum
--      number of outcomes to return · 4 `1` to delete those that the reader has · 5 number of bytes at which the reply
--      ends, as Redis serves no other client meanwhile; its last outcome may exceed them
-- Returns {state, number before that of the first outcome that follows, outcomes, oldest first}. The state is 0 if they
--      follow the reader's last one; 1 if Redis has returned to an earlier state, so that the reader has to compare
--      what follows with what it has; 2 if outcomes between were deleted unread.
--      Or the error OTHERREADER, if another reader has received outcomes that this one has not; 2 if it only looks.
--
-- After 0, unless the reader only looks: the outcomes that it has are deleted, at most 10,000 at a time; `read` counts
-- them, and `mark` has the number and digest of the last. The rest stays, so that a lost reply loses nothing and the
-- call may be repeated. After 1 and 2 nothing has changed.

local resultsKey, batchKey, statKey = KEYS[1], KEYS[2], KEYS[3]
local number, digest, limit, acknowledges = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local maximumBytes = tonumber(ARGV[5])

local v = redis.call('HMGET', batchKey, 'read', 'mark', 'outcomes')
local length, bytes, noted = storedOutcomes(batchKey, resultsKey)
local read = tonumber(v[1]) or 0
local written = math.max(tonumber(v[3]) or 0, read + length)
-- The number of the last outcome that is no longer in the list.
local base = written - length
if acknowledges == '1' and number < base and number < read then
  return redis.error_reply('OTHERREADER outcomes of this batch were read by another reader')
end
local function wentBack()
  if number > written then return true end
  if digest == '' or number == 0 then return false end
  if number > base then
    local index = number - base - 1
    return redis.sha1hex(redis.call('LRANGE', resultsKey, index, index)[1]) ~= digest
  end
  local marked, known = string.match(v[2] or '', '^(%d+):(%x+)$')
  return tonumber(marked) == number and known ~= digest
end
local state, start = 0, number
if wentBack() then
  state, start = 1, base
elseif number < base then
  state, start = 2, base
elseif number > base and acknowledges == '1' then
  local deleted = math.min(number - base, 10000)
  redis.call('LTRIM', resultsKey, deleted, -1)
  base = base + deleted
  redis.call('HSET', batchKey, 'read', string.format('%.0f', base), 'mark',
             base == number and digest ~= '' and string.format('%.0f:', number) .. digest or '')
  noteStored(statKey, batchKey, length - deleted, math.floor(bytes * (length - deleted) / length), noted)
end
local reply, size, first = {state, start}, 0, start - base
while #reply - 2 < limit and size < maximumBytes do
  local next = first + #reply - 2
  local page = redis.call('LRANGE', resultsKey, next, next + math.min(32, limit - #reply + 2) - 1)
  if #page == 0 then break end
  for _, outcome in ipairs(page) do
    if size >= maximumBytes then break end
    size = size + #outcome
    reply[#reply + 1] = outcome
  end
end
return reply
