#!lua flags=allow-oom
-- publish: publishes the leader's presets for processes that may have to take over.
--
-- KEYS 1 presets
-- ARGV 1 the presets, JSON
-- Returns `OK`.
--
-- `allow-oom`: a leader that could not publish would not lead, and a full queue could not be worked off.

local presetsKey = KEYS[1]
local presets = ARGV[1]

return redis.call('SET', presetsKey, presets)
