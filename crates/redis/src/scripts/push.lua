-- Tells of jobs that have just been stored, with what their worker needs to know.
--
-- KEYS: state, then the lanes.
-- ARGV: epoch, until when they are new (milliseconds, this server's time), prefix of the queue's keys, how long documents are cached (seconds),
--   channel, queue, then for each lane its suffix, how many jobs, and for each of them: id, time, document (or an empty text).
-- Returns whether the queue is open in this epoch; if not, it has been told of nothing.

local epoch, new_until, prefix, cache_s = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if redis.call('HGET', KEYS[1], 'epoch') ~= epoch then return 0 end

local clock = redis.call('TIME')
-- What comes late may have been told by others, and be done already.
local new = clock[1] * 1000 + math.floor(clock[2] / 1000) <= new_until
local documents, at, latest = {}, 7, 0
for lane = 1, #KEYS - 1 do
  local suffix, count = ARGV[at], tonumber(ARGV[at + 1])
  local members = {}
  at = at + 2
  for _ = 1, count do
    local id, run_at, document = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    members[#members + 1] = run_at
    members[#members + 1] = id
    if document ~= '' then latest = math.max(latest, tonumber(run_at)) end
    if new and document ~= '' then
      local of_hour = documents_key(prefix, epoch, run_at)
      local fields = documents[of_hour] or {}
      documents[of_hour] = fields
      fields[#fields + 1] = id
      fields[#fields + 1] = document
    end
    at = at + 3
  end
  redis.call('ZADD', KEYS[1 + lane], 'NX', unpack(members))
  redis.call('HSET', KEYS[1], suffix, 1)
end
for of_hour, fields in pairs(documents) do
  redis.call('HSET', of_hour, unpack(fields))
  redis.call('EXPIRE', of_hour, cache_s)
  if redis.call('HSET', KEYS[1], string.sub(of_hour, #prefix + 1), 1) == 1 then
    -- A new hour: those of hours ago have gone by themselves.
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
      if string.sub(field, 1, 5) == 'jobs:' and redis.call('EXISTS', prefix .. field) == 0 then redis.call('HDEL', KEYS[1], field) end
    end
  end
end
if latest > 0 then remember_clock(KEYS[1], latest) end
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 1
