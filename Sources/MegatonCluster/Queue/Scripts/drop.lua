#!lua flags=allow-oom
-- drop: deletes dead letters for good.
--
-- KEYS 1 dead · 2 deadinfo · 3 stat
-- ARGV ids
-- Returns how many there were.

local deadKey, deadInfoKey, statKey = KEYS[1], KEYS[2], KEYS[3]

return deleteDeadLetters(deadKey, deadInfoKey, statKey, ARGV)
