#!lua flags=allow-oom
-- publish: publishes the settings of the leader, for processes that may have to take over.
--
-- KEYS 1 leader · 2 epoch · 3 presets · 4 webhookrules
-- ARGV 1 caller's name · 2 epoch · 3 its presets, JSON · 4 its rules for webhooks, JSON; empty if it has no key to sign
--      requests with
-- Returns `OK`, or the error NOTLEADER: a former leader must not replace the settings of its successor.
-- After: `webhookrules` is missing without rules.
--
-- `allow-oom`: a leader that could not publish would not lead, and a full queue could not be worked off.

local leaderKey, epochKey, presetsKey, rulesKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local caller, epoch, presets, rules = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
if rules == '' then redis.call('DEL', rulesKey) else redis.call('SET', rulesKey, rules) end
return redis.call('SET', presetsKey, presets)
