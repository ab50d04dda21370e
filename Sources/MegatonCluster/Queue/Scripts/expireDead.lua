#!lua flags=allow-oom
-- expireDead: publishes the retention of the leader, and deletes dead letters that are too old or too many.
--
-- KEYS 1 dead · 2 deadinfo · 3 stat
-- ARGV 1 age after which a dead letter is deleted, ms · 2 maximum number to delete · 3 limit of the dead letters in
--      bytes · 4 limit of the outcomes of all batches in bytes · 5 age after which a batch is forgotten, ms
-- Returns how many were deleted. If that is the maximum, there may be more.

local deadKey, deadInfoKey, statKey = KEYS[1], KEYS[2], KEYS[3]
local age, most, deadLimit, outcomeLimit, batchAge = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

redis.call('HSET', statKey, 'dead_limit', deadLimit, 'outcome_limit', outcomeLimit, 'dead_age', age, 'batch_age',
           batchAge)
return trimDeadLetters(deadKey, deadInfoKey, statKey, now() - age, most)
