#!lua flags=allow-oom
-- changeLayout: replaces a shard's copy of the layout, if it still is the one that the caller has read.
--
-- KEYS 1 shards
-- ARGV 1 the copy that the caller has read, `` if there was none · 2 the new copy, `` to delete it
-- Returns 1 if the new copy is there now, also if it was before; otherwise 0, and nothing has changed.
-- Safe to repeat. Allowed in a full Redis, which may need more shards.

local layoutKey = KEYS[1]
local expected, new = ARGV[1], ARGV[2]

local stored = redis.call('GET', layoutKey) or ''
if stored == new then return 1 end
if stored ~= expected then return 0 end
if new == '' then redis.call('DEL', layoutKey) else redis.call('SET', layoutKey, new) end
return 1
