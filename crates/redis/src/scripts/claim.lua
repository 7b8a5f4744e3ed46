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

local chosen = {}

-- The first jobs of some lanes that are due between two times.
local function choose(from_lane, to_lane, from, to, ahead)
  local found = {}
  for lane = from_lane, to_lane do
    local row = redis.call('ZRANGEBYSCORE', key(lane), from, to, 'WITHSCORES', 'LIMIT', 0, room)
    for i = 1, #row, 2 do found[#found + 1] = {lane, row[i], row[i + 1], ahead} end
  end
  if to_lane > from_lane then
    table.sort(found, function(one, other)
      local a, b = tonumber(one[3]), tonumber(other[3])
      if a ~= b then return a < b end
      return one[2] < other[2]
    end)
  end
  for i = 1, math.min(room, #found) do chosen[#chosen + 1] = found[i] end
  room = room - math.min(room, #found)
end

local lane = 1
while lane <= lanes and room > 0 do
  local last = lane
  while last < lanes and rank(last + 1) == rank(lane) do last = last + 1 end
  choose(lane, last, '-inf', now, 0)
  lane = last + 1
end
if room > 0 and tonumber(till) > tonumber(now) then choose(1, lanes, '(' .. now, till, 1) end

if only_look then
  local answer = {''}
  for _, job in ipairs(chosen) do
    answer[#answer + 1] = job[4]
    answer[#answer + 1] = rank(job[1])
    answer[#answer + 1] = job[3]
    answer[#answer + 1] = job[2]
  end
  return answer
end

local time = redis.call('TIME')
local held_until = time[1] * 1000 + math.floor(time[2] / 1000) + hold_ms
local taken, hold, own, cached, places = {}, {}, {}, {}, {}
for i, job in ipairs(chosen) do
  local ids = taken[job[1]] or {}
  taken[job[1]] = ids
  ids[#ids + 1] = job[2]
  hold[#hold + 1] = held_until
  hold[#hold + 1] = job[2]
  own[#own + 1] = job[2]
  own[#own + 1] = token .. ' ' .. job[3] .. ' ' .. suffix(job[1])
  local documents = documents_key(prefix, epoch, job[3])
  local of_hour = cached[documents] or {}
  cached[documents] = of_hour
  of_hour[#of_hour + 1] = job[2]
  places[documents] = places[documents] or {}
  places[documents][#of_hour] = i
end
if #chosen > 0 then
  for of_lane, ids in pairs(taken) do redis.call('ZREM', key(of_lane), unpack(ids)) end
  redis.call('ZADD', held, unpack(hold))
  redis.call('HSET', owners, unpack(own))
end
local documents_of = {}
for documents, ids in pairs(cached) do
  local found = redis.call('HMGET', documents, unpack(ids))
  local any = false
  for i, document in ipairs(found) do
    documents_of[places[documents][i]] = document
    any = any or document
  end
  if any then redis.call('HDEL', documents, unpack(ids)) end
end

local next_at = ''
if room > 0 then
  for of_lane = 1, lanes do
    local first = redis.call('ZRANGE', key(of_lane), 0, 0, 'WITHSCORES')
    if first[2] and (next_at == '' or tonumber(first[2]) < tonumber(next_at)) then next_at = first[2] end
  end
end
local answer = {next_at}
for i, job in ipairs(chosen) do
  answer[#answer + 1] = job[4] == 1 and -job[1] or job[1]
  answer[#answer + 1] = job[2]
  answer[#answer + 1] = job[3]
  answer[#answer + 1] = documents_of[i] or false
end
return answer
