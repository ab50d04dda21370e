#!lua flags=allow-oom
-- dropEntry: deletes a damaged entry, unless another has replaced it since it was read.
--
-- KEYS 1 entry
-- ARGV 1 m as it was read
-- Returns 1 if it was deleted.

local entryKey = KEYS[1]
local header = ARGV[1]

if redis.call('HGET', entryKey, 'm') ~= header then return 0 end
return redis.call('UNLINK', entryKey)
