#!lua flags=allow-oom
-- joinProtocol: records the protocols of a queue that has none yet, or a shard's copy of the layout that was lost.
--
-- KEYS 1 protocol, or shards
-- ARGV 1 range of protocols that the caller speaks, `<lowest>-<highest>`; or the copy
-- Returns the queue's range, or the copy that the shard has now.
-- Allowed in a full Redis, which could not be worked off otherwise.

local protocolKey = KEYS[1]
local range = ARGV[1]

redis.call('SET', protocolKey, range, 'NX')
return redis.call('GET', protocolKey)
