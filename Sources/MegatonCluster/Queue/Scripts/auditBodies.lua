#!lua flags=no-writes
-- auditBodies: reads the ids of a page of job bodies. HSCAN alone would send the jobs' JSON too.
--
-- KEYS 1 body
-- ARGV 1 cursor · 2 approximate number of ids
-- Returns {the next cursor, `0` after the last page, {ids}}. Changes nothing.

local bodyKey = KEYS[1]
local cursor, count = ARGV[1], ARGV[2]

local page = redis.call('HSCAN', bodyKey, cursor, 'COUNT', count)
local ids = {}
for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
return {page[1], ids}
