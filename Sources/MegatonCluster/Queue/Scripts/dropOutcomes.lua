#!lua flags=allow-oom
-- dropOutcomes: deletes the outcomes of a finished batch that no reader has received, to make room for others.
--
-- KEYS 1 results:<batch> · 2 batch:<batch> · 3 stat
-- ARGV 1 `1` if the batch must have ended
-- Returns the bytes that were freed.
-- After: `results_deleted` counts the deleted outcomes, and later ones are numbered as if they were there.

local resultsKey, batchKey, statKey = KEYS[1], KEYS[2], KEYS[3]
local mustHaveEnded = ARGV[1]

if mustHaveEnded == '1' and redis.call('HEXISTS', batchKey, 'finished') == 0 then return 0 end
local count, bytes, noted = storedOutcomes(batchKey, resultsKey)
if count == 0 and noted == 0 then return 0 end
redis.call('UNLINK', resultsKey)
if count > 0 then redis.call('HINCRBY', batchKey, 'results_deleted', count) end
noteStored(statKey, batchKey, 0, 0, noted)
return bytes
