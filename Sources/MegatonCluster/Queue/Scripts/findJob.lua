#!lua flags=no-writes
-- findJob: reads the state of a job, in one moment.
--
-- KEYS 1 meta · 2 lease · 3 delay · 4 dead · 5 deadinfo · 6 held · 7 known:<batch>
-- ARGV 1 key of the job · 2 its id if it has a batch, otherwise ``: the last key is not read then
-- Returns {ms since 1970 by Redis' clock, attempt, worker, priority `1`-`3`, free attempts, host, end of its lease,
--      time at which it is due, time of the next turn of its host, time of its death, its dead letter as JSON, its
--      state in `known`}; texts, each empty if there is none, and the times in ms since 1970. The attempt is empty for
--      a job that is not alive.

local metaKey, leaseKey, delayKey, deadKey, deadInfoKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local heldKey, knownKey = KEYS[6], KEYS[7]
local job, id = ARGV[1], ARGV[2]

local a, _, w, p, _, f, _, h = unpackMeta(redis.call('HGET', metaKey, job) or '')
local host = hostName(h or '')
local known = id ~= '' and redis.call('HGET', knownKey, 'i' .. id) or ''
local turn = w and string.sub(w, 1, 1) == '#' and redis.call('ZSCORE', heldKey, host)
return {
  string.format('%.0f', now()), a and tostring(a) or '', w or '', p or '', tostring(f or 0), host,
  redis.call('ZSCORE', leaseKey, job) or '', redis.call('ZSCORE', delayKey, job) or '', turn or '',
  redis.call('ZSCORE', deadKey, job) or '', redis.call('HGET', deadInfoKey, job) or '', string.sub(known, 34)
}
