#!lua flags=allow-oom
-- deliverReplies: appends outcomes to a list of a client, and renews the list's time to live.
--
-- KEYS 1 the list, whose name the client chose
-- ARGV 1 time to live, s · 2 maximum number of entries · 3 maximum number of bytes, about · the outcomes
-- Returns how many entries, the oldest first, were deleted as the list has more than that; or an error if the key has
--      another type.
-- The bytes are estimated from the first and the last entries: at least one entry stays.

local listKey = KEYS[1]
local lifetime, maximumCount, maximumBytes, firstOutcome = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 4

local length = 0
for i = firstOutcome, #ARGV do length = redis.call('RPUSH', listKey, ARGV[i]) end
redis.call('EXPIRE', listKey, lifetime)
local sample, bytes = redis.call('LRANGE', listKey, 0, 7), 0
for _, outcome in ipairs(redis.call('LRANGE', listKey, -8, -1)) do sample[#sample + 1] = outcome end
for _, outcome in ipairs(sample) do bytes = bytes + #outcome end
local kept = math.min(maximumCount, math.max(math.floor(maximumBytes * #sample / math.max(bytes, 1)), 1))
if length <= kept then return 0 end
redis.call('LTRIM', listKey, -kept, -1)
return length - kept
