-- Adds jobs that have just been stored, with the documents that their workers need.
--
-- KEYS: state, then the keys under which documents are cached.
-- ARGV: epoch, until when the jobs are new (milliseconds, this server's time), how long documents are cached (seconds), channel, queue,
--   number of lanes, the latest time of a queued job (or 0), prefix of the queue's keys, the lane length above which nothing is cached,
--   then for each lane its suffix, the number of jobs, and for each job its time and its id; then for each key of documents its suffix, the
--   number of jobs, and for each job its id and its document.
-- Returns whether the queue is open in this epoch; if not, nothing is added.

local state, lanes, latest, prefix = KEYS[1], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
if redis.call('HGET', state, 'epoch') ~= ARGV[1] then return 0 end

local at, long = 10, false
for lane = 1, lanes do
  local last = at + 1 + 2 * tonumber(ARGV[at + 1])
  local suffix, members = ARGV[at], {unpack(ARGV, at + 2, last)}
  local times = parts_of(state, suffix)
  add(prefix, suffix, times, members, true)
  if latest > 0 then
    long = long or #times * PART_MAX_JOBS + redis.call('ZCARD', place(prefix, suffix, times, latest)) > tonumber(ARGV[9])
    part(state, prefix, suffix, times, latest, string.format('%.0f', latest + 1))
  end
  at = last + 1
end

local clock = redis.call('TIME')
-- If this call is late, other processes may have added these jobs, and the jobs may be done: nothing is cached then. Nothing more is cached
-- for a long backlog either: it would fill this server's memory.
if clock[1] * 1000 + math.floor(clock[2] / 1000) <= tonumber(ARGV[2]) and not long then
  for number = 2, #KEYS do
    local last = at + 1 + 2 * tonumber(ARGV[at + 1])
    redis.call('HSET', KEYS[number], unpack(ARGV, at + 2, last))
    redis.call('EXPIRE', KEYS[number], ARGV[3])
    if redis.call('HSET', state, ARGV[at], 1) == 1 then forget_hours(state, KEYS[number], ARGV[at]) end
    at = last + 1
  end
end
if latest > 0 then remember_clock(state, latest) end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
