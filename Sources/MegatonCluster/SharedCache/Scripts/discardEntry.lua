#!lua flags=allow-oom
-- discardEntry: deletes an entry and the remembered failure of its key.
--
-- KEYS 1 entry · 2 negative
-- ARGV 1 channel of deletions · 2 message
-- Returns 1 if there was an entry; its deletion is then published, for near caches that hold a copy.

local entryKey, negativeKey = KEYS[1], KEYS[2]
local deletions, message = ARGV[1], ARGV[2]

redis.call('UNLINK', negativeKey)
local hadEntry = redis.call('UNLINK', entryKey)
if hadEntry == 1 then redis.call('PUBLISH', deletions, message) end
return hadEntry
