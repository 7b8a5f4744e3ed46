-- Hands out hinted jobs to a claim: moves the first due jobs from their lanes into `owners`, under the token of the claim.
--
-- KEYS: state, held, owners.
-- ARGV: epoch, now, until (later than now: jobs due by then may be handed out ahead of their time), limit, how long the claim holds the
--   jobs (milliseconds), token of the claim, prefix of the queue's keys, whether to return candidates only, then for each lane of one
--   queue, lowest ranks first, its rank and its suffix.
-- Returns nothing if the queue is not open in this epoch. Otherwise the time of the next job (or an empty text), then for each job: number
--   of its lane (negative if the job is handed out ahead of its time), id, time, cached document (if any).
-- For candidates only: for each job that would be handed out: 1 if ahead of its time, its rank, its time, its id.

local state, held, owners = KEYS[1], KEYS[2], KEYS[3]
local epoch, now, till, room, hold_ms, token, prefix = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local only_peek = ARGV[8] == '1'

if not is_open(state, epoch) then return false end
local lanes = (#ARGV - 8) / 2
local function rank(lane) return ARGV[7 + 2 * lane] end
local function suffix(lane) return ARGV[8 + 2 * lane] end

local fields = {'paused', 'clock'}
for lane = 1, lanes do fields[2 + lane] = suffix(lane) end
local known = redis.call('HMGET', state, unpack(fields))
if known[1] then return {''} end
if known[2] and tonumber(known[2]) > tonumber(now) then now = known[2] end

-- Calls `call` with each key of a lane, earliest jobs first, until `call` returns true. A long lane has several keys.
local function each_key(lane, call)
  if call(prefix .. suffix(lane)) then return end
  for from in each_time(known[2 + lane]) do
    if call(part_key(prefix, suffix(lane), from), from) then return end
  end
end

-- The chosen jobs: number of the lane (negative if ahead of its time), id, time.
local lane_of, ids, times, chosen = {}, {}, {}, 0
-- The number of jobs chosen from each lane: always the first ones of the lane.
local taken = {}

-- Returns the first jobs of a lane that are due between two times.
local function first_of(lane, from, to)
  local row = nil
  each_key(lane, function(key)
    local more = redis.call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', 0, room - (row and #row / 2 or 0))
    if row then for i = 1, #more do row[#row + 1] = more[i] end else row = more end
    return #row >= 2 * room
  end)
  return row
end

-- Removes the first jobs of a lane, and the parts that this empties.
local function remove(lane, count)
  local empty = nil
  each_key(lane, function(key, from)
    count = count - redis.call('ZREMRANGEBYRANK', key, 0, count - 1)
    if from and redis.call('EXISTS', key) == 0 then empty = from end
    return count == 0
  end)
  if not empty then return end
  local _, last = string.find(known[2 + lane], empty .. ' ?')
  redis.call('HSET', state, suffix(lane), string.sub(known[2 + lane], last + 1))
end

-- Chooses the first jobs of the given lanes that are due between two times.
local function choose(from_lane, to_lane, from, to, sign)
  local found, count = {}, 0
  for lane = from_lane, to_lane do
    local row = first_of(lane, from, to)
    if from_lane == to_lane then
      count = #row / 2
      for i = 1, count do lane_of[chosen + i], ids[chosen + i], times[chosen + i] = sign * lane, row[2 * i - 1], row[2 * i] end
      taken[lane] = (taken[lane] or 0) + count
    else
      for i = 1, #row, 2 do found[#found + 1] = {lane, row[i], row[i + 1]} end
    end
  end
  if to_lane > from_lane then
    table.sort(found, function(one, other)
      local a, b = tonumber(one[3]), tonumber(other[3])
      if a ~= b then return a < b end
      return one[2] < other[2]
    end)
    count = math.min(room, #found)
    for i = 1, count do
      local lane = found[i][1]
      lane_of[chosen + i], ids[chosen + i], times[chosen + i] = sign * lane, found[i][2], found[i][3]
      taken[lane] = (taken[lane] or 0) + 1
    end
  end
  chosen, room = chosen + count, room - count
end

local lane = 1
while lane <= lanes and room > 0 do
  local last = lane
  while last < lanes and rank(last + 1) == rank(lane) do last = last + 1 end
  choose(lane, last, '-inf', now, 1)
  lane = last + 1
end
if room > 0 and tonumber(till) > tonumber(now) then choose(1, lanes, '(' .. now, till, -1) end

if only_peek then
  local answer = {''}
  for i = 1, chosen do
    local ahead = lane_of[i] < 0
    answer[4 * i - 2] = ahead and 1 or 0
    answer[4 * i - 1] = rank(math.abs(lane_of[i]))
    answer[4 * i] = times[i]
    answer[4 * i + 1] = ids[i]
  end
  return answer
end

local answer = {''}
if chosen > 0 then
  local time = redis.call('TIME')
  redis.call('ZADD', held, time[1] * 1000 + math.floor(time[2] / 1000) + hold_ms, token)
  local own, rest = {}, {}
  for of_lane, count in pairs(taken) do
    if count > 0 then remove(of_lane, count) end
    rest[of_lane] = ' ' .. suffix(of_lane)
    rest[-of_lane] = rest[of_lane]
  end
  -- Documents are cached by hour. Nearly always, all chosen jobs belong to the same hour.
  local cached, first, hour_from, hour_to = {}, 1, 0, 0
  for i = 1, chosen do
    own[2 * i - 1], own[2 * i] = ids[i], token .. ' ' .. times[i] .. rest[lane_of[i]]
    local run_at = tonumber(times[i])
    if run_at < hour_from or run_at >= hour_to then
      if i > first then cached[#cached + 1] = {first, i - 1} end
      first, hour_from = i, hour(run_at) * HOUR
      hour_to = hour_from + HOUR
    end
    answer[4 * i - 2], answer[4 * i - 1], answer[4 * i], answer[4 * i + 1] = lane_of[i], ids[i], times[i], false
  end
  cached[#cached + 1] = {first, chosen}
  redis.call('HSET', owners, unpack(own))
  for _, span in ipairs(cached) do
    local documents = documents_key(prefix, epoch, times[span[1]])
    local found, any = redis.call('HMGET', documents, unpack(ids, span[1], span[2])), false
    for i, document in ipairs(found) do
      answer[4 * (span[1] + i - 1) + 1] = document
      any = any or document
    end
    if any then redis.call('HDEL', documents, unpack(ids, span[1], span[2])) end
  end
end

local next_at = ''
if room > 0 then
  for of_lane = 1, lanes do
    each_key(of_lane, function(key)
      local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
      if first[2] and (next_at == '' or tonumber(first[2]) < tonumber(next_at)) then next_at = first[2] end
      return first[2]
    end)
  end
end
answer[1] = next_at
return answer
