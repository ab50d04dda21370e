#!lua flags=allow-oom
-- joinProtocol: records the protocols of a queue that has none yet.
--
-- KEYS 1 protocol
-- ARGV 1 range of protocols that the caller speaks, `<lowest>-<highest>`
-- Returns the queue's range.
-- Allowed in a full Redis, which could not be worked off otherwise.

local protocolKey = KEYS[1]
local range = ARGV[1]

redis.call('SET', protocolKey, range, 'NX')
return redis.call('GET', protocolKey)
