#!lua
-- requeue: moves dead jobs back to the public intake; they are validated like new ones.
--
-- KEYS 1 dead · 2 deadinfo · 3 jobs · 4 stat · 5 crashes
-- ARGV three for each job: id · the JSON to push · the digest of its source, which is no longer suspected
-- Returns how many were requeued.
--
-- An id that is not dead (any more) is skipped, so that nothing is pushed twice. A job is pushed before its letter is
-- deleted: if the intake is no list, the call is an error, and the letter stays.
-- Bounded by the caller: at most 512 KiB, or one job.
-- The requeued jobs have no batch, only its scope for their ids: the batch that they died in has counted them as
-- failed, once. Not `allow-oom`, as this is new work.

local deadKey, deadInfoKey, jobsKey, statKey, crashesKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local pushed = 0
for i = 1, #ARGV, 3 do
  local id, json, digest = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('ZSCORE', deadKey, id) then
    redis.call('LPUSH', jobsKey, json)
    deleteDeadLetters(deadKey, deadInfoKey, statKey, {id})
    redis.call('ZREM', crashesKey, digest)
    pushed = pushed + 1
  end
end
if pushed > 0 then redis.call('HINCRBY', statKey, 'requeued', pushed) end
return pushed
