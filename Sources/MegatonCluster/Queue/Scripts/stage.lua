#!lua flags=allow-oom
-- stage: moves jobs from the intakes into the leader's stage, which only the leader touches.
--
-- KEYS 1 leader · 2 epoch · 3 stage:<epoch> · 4 stages · 5 intakes · 6 credit · 7 control · 8 round · 9… intakes, the
--      three public ones first
-- ARGV 1 caller's name · 2 epoch · 3 maximum number of jobs · 4 number of jobs at the front of the stage that the
--      caller has already · 5 the round that the caller knows · 6 maximum number of sources in packs, or `` if
--      they count in 3; then two for each intake: its batch, or ``, `!high` or `!bulk` for the public ones · its weight
--      among those of its priority, 0 if it is not to be read
-- Returns the jobs that are then in the stage behind those, oldest first, each `<batch>\0<json>`; or the error
--      NOTLEADER or STALEROUND.
--
-- The round is then one higher: after a failover that has returned Redis to an earlier state, a leader that relies on
-- its memory of the stage is refused.
-- After: a job is in exactly one of intake and stage. Jobs that the stage held already come first, so that after a
-- failure between `stage` and `admit` a leader resumes with the same jobs.
-- A job of more than 1 MiB is cut and marked with a first byte 1, so that validation rejects it: its first KiB, a line
-- end and its size follow. One call moves about 1 MiB, less what the stage had, and returns at most 2 MiB, or one job:
-- Redis serves no other client meanwhile, and jobs that it moved but did not return would be ahead of all that are
-- pushed later. So jobs are taken one by one: pages of eight, which grew by the small jobs of one intake and then met
-- the large ones of another, held Redis for 24 ms.
-- Smooth weighted round robin, as in nginx: with each job, every intake that has jobs gains its weight, and the intake
-- with the most credit provides the job and pays the sum of all weights. A weight counts 16, 4 or 1 times by priority,
-- as in `claim`: that of the list, or for a batch that of the last job that left its intake, `normal` before the first.
-- Otherwise the ready `high` jobs would run out while lower ones fill the window. Remaining credit is kept in `credit`,
-- with that priority, so that the shares hold even if there is room for only one job at a time. A batch's own intake is
-- forgotten once it is empty.
-- A pack counts as its sources, in the shares and in the maximum numbers, of which the last one may be beyond them. An
-- intake whose next job is one for which there is no room keeps it and has had its turn. The sources of a pack
-- are counted by a text that each contains, so that no JSON has to be read. In the shares, a job of many bytes
-- counts as several, one for each 8 KiB: an intake of large jobs must not take most of the time of Redis (as in deficit
-- round robin, Shreedhar and Varghese, SIGCOMM 1995).
-- Nothing is moved from the intakes while the queue drains.

local leaderKey, epochKey, stageKey, stagesKey, intakesKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local creditKey, controlKey, roundKey, publicIntake = KEYS[6], KEYS[7], KEYS[8], 9
local caller, epoch, limit, alreadyHeld, round = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local packRoom = tonumber(ARGV[6])

if redis.call('GET', leaderKey) ~= caller or redis.call('GET', epochKey) ~= epoch then
  return redis.error_reply('NOTLEADER another process leads')
end
if (redis.call('GET', roundKey) or '0') ~= round then
  return redis.error_reply('STALEROUND the stage has changed since its leader read it')
end
redis.call('INCR', roundKey)
local stagedBefore = redis.call('LLEN', stageKey)
local maximumBytes = 1048576
-- The jobs to return. First those that the stage had, if an earlier leader or call has left them; one by one, as they
-- may be large.
local staged, bytes = {}, 0
for i = alreadyHeld, math.min(stagedBefore, alreadyHeld + math.max(limit, packRoom or 0)) - 1 do
  local job = redis.call('LRANGE', stageKey, i, i)[1]
  bytes = bytes + #job
  if #staged > 0 and bytes > maximumBytes then break end
  staged[#staged + 1] = job
end
local want = limit - #staged
if stagedBefore - alreadyHeld > #staged or redis.call('HGET', controlKey, 'drain') == '1' then
  want, packRoom = 0, packRoom and 0
end
-- The position of an intake in ARGV.
local function position(k)
  return 7 + 2 * (k - publicIntake)
end
-- The number of occurrences of a text behind a position, at most 256.
local function occurrences(text, part, at)
  local count = 0
  while count < 256 do
    at = string.find(text, part, at, true)
    if not at then break end
    count, at = count + 1, at + #part
  end
  return count
end
-- The number of sources of a job. Each source of a pack is an object with the field `source`, or a URL.
local function size(job)
  local at = #job <= maximumBytes and string.find(job, '"sources"', 1, true)
  if not at then return 1 end
  local objects = occurrences(job, '"source"', at)
  return math.max(objects > 0 and objects or occurrences(job, '://', at), 1)
end
local priorityWeights = {high = 16, normal = 4, bulk = 1}
-- The priority in a job's JSON. The search for a plain text comes first: a pattern is tried at each byte, which takes
-- 10 ms for a job of 1 MiB.
local function priorityOf(job)
  local at = #job <= maximumBytes and string.find(job, '"priority":"', 1, true)
  -- The first ones may be labels of that name: those with another value are passed.
  for _ = 1, 16 do
    local priority = at and string.match(job, '^"priority":"(%l+)"', at)
    if priorityWeights[priority or ''] then return priority end
    at = at and string.find(job, '"priority":"', at + 1, true)
  end
  return 'normal'
end
local publicPriorities = {'high', 'normal', 'bulk'}
local open, total = {}, 0
for k = publicIntake, #KEYS do
  local at = position(k)
  local weight = tonumber(ARGV[at + 1])
  -- A key of another type must not end the call after jobs of other lists were taken.
  if weight > 0 and redis.call('TYPE', KEYS[k]).ok == 'list' then
    local intake = {key = KEYS[k], batch = ARGV[at], share = weight, isPublic = k <= publicIntake + 2}
    local credit, priority = string.match(redis.call('HGET', creditKey, intake.batch) or '', '^(-?%d+) ?(%l*)$')
    intake.credit = tonumber(credit or '0')
    if intake.isPublic then priority = publicPriorities[k - publicIntake + 1] end
    intake.priority = priorityWeights[priority] and priority or 'normal'
    intake.weight = weight * priorityWeights[intake.priority]
    open[#open + 1] = intake
    total = total + intake.weight
  end
end
-- Credits and debts from a time at which other intakes had jobs must not outlast them: at most what one job costs.
for _, intake in ipairs(open) do intake.credit = math.max(math.min(intake.credit, 256 * total), -256 * total) end
local last, taken, left, looked = 0, {}, {}, 0
local function hasRoom(number)
  if number > 1 and packRoom then return packRoom > 0 end
  return want > 0
end
while (want > 0 or packRoom and packRoom > 0) and #open > 0 and bytes + last <= maximumBytes do
  local best = 1
  for i = 1, #open do
    open[i].credit = open[i].credit + open[i].weight
    if open[i].credit > open[best].credit then best = i end
  end
  local intake = open[best]
  local isPassed = false
  if packRoom and (want <= 0 or packRoom <= 0) then
    -- Only a look: jobs without room usually wait behind each other.
    local job = looked < maximumBytes and redis.call('LRANGE', intake.key, -1, -1)[1]
    -- One that is too large is taken without room, as it does not run: otherwise each call would read it again.
    if job then isPassed = #job <= maximumBytes and not hasRoom(size(job)) else isPassed = looked >= maximumBytes end
    looked = looked + (job and #job or 0)
  end
  local job = not isPassed and redis.call('RPOP', intake.key)
  if isPassed then
    intake.credit = intake.credit - total
    total = total - intake.weight
    left[#left + 1] = table.remove(open, best)
  elseif job then
    intake.credit = intake.credit - total
    local sources, priority = size(job), priorityOf(job)
    local cost = math.max(sources, math.min(math.ceil(#job / 8192), 128))
    bytes, last = bytes + #job, #job
    if packRoom and sources > 1 then packRoom = packRoom - sources else want = want - sources end
    if #job > maximumBytes then job = '\1' .. string.sub(job, 1, 1024) .. '\n' .. #job end
    taken[#taken + 1] = intake.batch .. '\0' .. job
    if #open > 1 and cost > 1 then
      -- As if each source, or each 8 KiB, had been a job of its own.
      for _, other in ipairs(open) do other.credit = other.credit + (cost - 1) * other.weight end
      intake.credit = intake.credit - (cost - 1) * total
    end
    if not intake.isPublic and priorityWeights[priority] and priority ~= intake.priority then
      total = total - intake.weight
      intake.priority, intake.weight = priority, intake.share * priorityWeights[priority]
      total = total + intake.weight
    end
  else
    total = total - intake.weight
    table.remove(open, best)
  end
end
callForAll('RPUSH', stageKey, taken)
for _, intake in ipairs(left) do open[#open + 1] = intake end
for _, intake in ipairs(open) do
  redis.call('HSET', creditKey, intake.batch, string.format('%.0f %s', intake.credit, intake.priority))
end
for k = publicIntake, #KEYS do
  local batch = ARGV[position(k)]
  if redis.call('EXISTS', KEYS[k]) == 0 then
    redis.call('HDEL', creditKey, batch)
    if k > publicIntake + 2 then redis.call('ZREM', intakesKey, batch) end
  end
end
bytes = 0
for _, job in ipairs(staged) do bytes = bytes + #job end
for _, job in ipairs(taken) do
  bytes = bytes + #job
  if #staged > 0 and bytes > 2 * maximumBytes then break end
  staged[#staged + 1] = job
end
if #staged > 0 then redis.call('SADD', stagesKey, epoch) end
return staged
