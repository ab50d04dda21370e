#!lua flags=allow-oom
-- beginFlight: looks an entry up, and makes the caller the leader of its flight if the entry is neither fresh nor being
-- made.
--
-- KEYS 1 entry · 2 flight · 3 negative
-- ARGV 1 owner · 2 lease, ms · 3 token of the flight that the caller has waited for, or 0 · 4 `0` if the owner leads a
--      flight of this key; otherwise the number of the oldest of its calls for this key whose reply it has not read ·
--      5 maximum age of a remembered failure that is returned, ms; -1 for any age · 6 checksum of a copy of the entry
--      that the caller has, or empty · 7 number of this call, above those of the owner's earlier calls
-- Returns {`hit`, ms for which the entry is still fresh, m, chunk 0} · {`same`, ms, m}: a hit whose bytes are those of
--      the copy · {`failed`, error, ms left, old…} · {`shared`, error, ms left, old…}: the failure of the flight that
--      the caller has waited for, or of a later one, at any age ·
--      {`uncacheable`, token}: all callers may lead in parallel, and call `finishFlight` with such a token if they have
--      an entry · {`wait`, ms left, token, old…} · {`lead`, token, old…}. The fields old… are absent, or describe the
--      stale entry: ms since it became stale, m, chunk 0; `wait` has them only while that entry may be served.
--
-- An entry that the flight that the caller has waited for, or a later one, has stored is a hit for the caller, fresh or
-- not. `allow-oom`, as a full cache can still be read; the key of a flight is small and expires with its lease. After
-- `wait`: the flight is marked, so that its end is published. After `lead`: the owner holds the flight for the lease.
-- A flight that this call has begun before, or of which no unread reply of the owner can be, is taken over: its reply
-- was lost.
-- Tokens only grow, even if the entry or the flight was evicted in between, unless Redis' clock steps back.

local entryKey, flightKey, negativeKey = KEYS[1], KEYS[2], KEYS[3]
local owner, leaseTime, awaited, oldest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local maximumAge, copied, number = tonumber(ARGV[5]), ARGV[6], ARGV[7]

local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local e = redis.call('HMGET', entryKey, 'x', 's', 't')
local left = math.floor(tonumber(e[1] or '0') - us / 1000)
local function add(reply, ms)
  local d = redis.call('HMGET', entryKey, 'm', '0')
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = ms, d[1], d[2]
  return reply
end
local stored = tonumber(e[3] or '0')
-- The mark of a superseded entry has no bytes.
local hasEntry = e[1] and e[2] ~= '0'
if left > 0 or (awaited > 0 and stored >= awaited and hasEntry) then
  local header = copied ~= '' and redis.call('HGET', entryKey, 'm')
  if header and string.find(header, copied, 1, true) then return {'same', math.max(0, left), header} end
  return add({'hit'}, math.max(0, left))
end
local failed = redis.call('GET', negativeKey)
if failed == 'U' then return {'uncacheable', string.format('%.0f', math.max(us, stored + 1))} end
if failed then
  local at, token, kind = string.match(failed, '^{"at":(%d+),"token":(%d+),"kind":"(%a)"')
  local word
  if awaited > 0 and at and tonumber(token) >= awaited then
    word = 'shared'
  elseif kind == 'b' or (kind ~= 'w' and (maximumAge < 0 or (at and us / 1000 - at <= maximumAge))) then
    word = 'failed'
  end
  if word then
    local reply = {word, failed, redis.call('PTTL', negativeKey)}
    return hasEntry and add(reply, -left) or reply
  end
end
local f = redis.call('HMGET', flightKey, 'o', 't', 'n')
local mayLead = f[1] == owner and (f[3] == number or (oldest > 0 and tonumber(f[3] or '0') < oldest))
if f[1] and not mayLead then
  redis.call('HSET', flightKey, 'w', '1')
  local reply = {'wait', redis.call('PTTL', flightKey), f[2] or '0'}
  return tonumber(e[2] or '0') > us / 1000 and add(reply, -left) or reply
end
local last = math.max(stored, tonumber(f[2] or '0'))
local token = string.format('%.0f', math.max(us, last + 1))
redis.call('HSET', flightKey, 'o', owner, 't', token, 'n', number)
redis.call('PEXPIRE', flightKey, leaseTime)
return hasEntry and add({'lead', token}, -left) or {'lead', token}
