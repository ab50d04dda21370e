#!lua flags=allow-oom
-- publish: publishes settings of the leader, its presets or its rules for webhooks, for processes that may have to take
-- over.
--
-- KEYS 1 presets or webhookrules
-- ARGV 1 the settings, JSON
-- Returns `OK`.
--
-- `allow-oom`: a leader that could not publish would not lead, and a full queue could not be worked off.

local settingsKey = KEYS[1]
local settings = ARGV[1]

return redis.call('SET', settingsKey, settings)
