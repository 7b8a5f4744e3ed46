-- Hands hinted jobs to a worker: moves them from their lanes into the hands of whoever asks, first ones first.
--
-- KEYS: state, held, owners, then the lanes of one queue, first ranks first.
-- ARGV: epoch, now, until (later than now: what is due by then may be handed out ahead), how many, for how many milliseconds they are held,
--   token of the claim, prefix of the queue's keys, whether only to look, then for each lane its rank and its suffix.
-- Returns nothing if the queue is not open in this epoch, or else the time of the next job (or an empty text), then
--   for each job: number of its lane (negative if it is handed out ahead), id, time, and what is cached of it, if anything is.
--   If only to look: for each job that would be handed out: 1 if ahead, its rank, its time, its id.

local state, held, owners = KEYS[1], KEYS[2], KEYS[3]
local epoch, now, till, room, hold_ms, token, prefix = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local only_look = ARGV[8] == '1'

if not is_open(state, epoch) then return false end
if redis.call('HEXISTS', state, 'paused') == 1 then return {''} end

local clock = redis.call('HGET', state, 'clock')
if clock and tonumber(clock) > tonumber(now) then now = clock end

local lanes = #KEYS - 3
local function key(lane) return KEYS[3 + lane] end
local function rank(lane) return ARGV[7 + 2 * lane] end
local function suffix(lane) return ARGV[8 + 2 * lane] end

-- What is chosen: in which lane each job is (negative if it is ahead), its id, its time.
local lane_of, ids, times, chosen = {}, {}, {}, 0
-- How many of each lane: they are always its first ones.
local taken = {}

-- Chooses the first jobs of some lanes that are due between two times.
local function choose(from_lane, to_lane, from, to, sign)
  local found, count = {}, 0
  for lane = from_lane, to_lane do
    local row = redis.call('ZRANGEBYSCORE', key(lane), from, to, 'WITHSCORES', 'LIMIT', 0, room)
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

if only_look then
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
    if count > 0 then redis.call('ZREMRANGEBYRANK', key(of_lane), 0, count - 1) end
    rest[of_lane] = ' ' .. suffix(of_lane)
    rest[-of_lane] = rest[of_lane]
  end
  -- Documents are cached by the hour; nearly always all are of the same.
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
    local first = redis.call('ZRANGE', key(of_lane), 0, 0, 'WITHSCORES')
    if first[2] and (next_at == '' or tonumber(first[2]) < tonumber(next_at)) then next_at = first[2] end
  end
end
answer[1] = next_at
return answer
