-- What scripts share.

-- Which run of the server this is, and which history of its data. A server that was started again may have forgotten the last writes; so may one that
-- was a replica meanwhile: then its run is the same, but its history has another id.
local function server_run()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  return run .. (string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '')
end

-- Whether a queue is open in an epoch, in this run of the server.
local function is_open(state, epoch)
  local known = redis.call('HMGET', state, 'epoch', 'server')
  return known[1] == epoch and known[2] == server_run()
end

-- A queued job may start whatever the clock says, also if somebody has set it back: the queue remembers the latest time of any.
local function remember_clock(state, run_at)
  if run_at > tonumber(redis.call('HGET', state, 'clock') or 0) then
    redis.call('HSET', state, 'clock', string.format('%.0f', run_at))
  end
end

-- In microseconds.
local HOUR = 3600000000

local function hour(run_at)
  return math.floor(run_at / HOUR)
end

-- Where jobs of an hour are cached.
local function documents_key(prefix, epoch, run_at)
  return prefix .. 'jobs:' .. epoch .. ':' .. string.format('%d', hour(tonumber(run_at)))
end

-- A new hour, cached at a key with that suffix: those of hours ago have gone by themselves.
local function forget_hours(state, documents, suffix)
  local prefix = string.sub(documents, 1, -1 - #suffix)
  for _, field in ipairs(redis.call('HKEYS', state)) do
    if string.sub(field, 1, 5) == 'jobs:' and redis.call('EXISTS', prefix .. field) == 0 then redis.call('HDEL', state, field) end
  end
end

-- A long lane is kept in parts, each a sorted set of its own, so that a claim is as quick behind ten million jobs as behind ten thousand. Under
-- the lane's own key are the jobs before the time of its first part, in each part those from its own time on. What the queue's state has under the
-- lane's suffix are these times.

-- A part that has more is ended, so that what comes next goes into a new one.
local PART_MAX_JOBS = 50000
-- What comes after that end goes along, unless it is too much for one step.
local MOVED_MAX_JOBS = 10000

local function part_key(prefix, suffix, from)
  return prefix .. 'part:' .. from .. ':' .. suffix
end

-- Each time at which a part of a lane begins, first ones first, from what the state has of it.
local function each_time(text)
  return string.gmatch(text or '', '%d+')
end

-- All of them.
local function times_of(text)
  local times = {}
  for from in each_time(text) do times[#times + 1] = from end
  return times
end

-- Under which key of a lane a job of that time is.
local function place(prefix, suffix, times, run_at)
  local time = tonumber(run_at)
  for i = #times, 1, -1 do
    if time >= tonumber(times[i]) then return part_key(prefix, suffix, times[i]) end
  end
  return prefix .. suffix
end

-- The parts of a lane that jobs are about to be added to.
local function parts_of(state, suffix)
  local text = redis.call('HGET', state, suffix)
  if not text then redis.call('HSET', state, suffix, '') end
  return times_of(text)
end

-- Adds jobs to a lane, each its time and its id; only those that are not there, if that is said. Returns how many were not.
local function add(prefix, suffix, times, members, only_new)
  local keys = {}
  if #times == 0 then
    keys[prefix .. suffix] = members
  else
    for i = 1, #members, 2 do
      local key = place(prefix, suffix, times, members[i])
      local some = keys[key] or {}
      keys[key], some[#some + 1], some[#some + 2] = some, members[i], members[i + 1]
    end
  end
  local added = 0
  for key, some in pairs(keys) do
    added = added + (only_new and redis.call('ZADD', key, 'NX', unpack(some)) or redis.call('ZADD', key, unpack(some)))
  end
  return added
end

-- Ends the part of a lane that has the jobs of that time, if it is long: there is a new one from a time on.
local function part(state, prefix, suffix, times, run_at, from)
  local key = place(prefix, suffix, times, run_at)
  if redis.call('ZCARD', key) <= PART_MAX_JOBS or redis.call('ZCOUNT', key, from, '+inf') > MOVED_MAX_JOBS then return end
  for _, other in ipairs(times) do if other == from then return end end
  local moved = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES')
  for i = 1, #moved, 2 do redis.call('ZADD', part_key(prefix, suffix, from), moved[i + 1], moved[i]) end
  redis.call('ZREMRANGEBYSCORE', key, from, '+inf')
  local all = {from, unpack(times)}
  table.sort(all, function(one, other) return tonumber(one) < tonumber(other) end)
  redis.call('HSET', state, suffix, table.concat(all, ' '))
end

-- Every key of every lane of a queue.
local function lane_keys(state, prefix)
  local keys, fields = {}, redis.call('HGETALL', state)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'ready:' then
      keys[#keys + 1] = prefix .. fields[i]
      for from in each_time(fields[i + 1]) do keys[#keys + 1] = part_key(prefix, fields[i], from) end
    end
  end
  return keys
end

-- Puts a job back into its lane that was in somebody's hands, by what is known of that.
local function put_back(prefix, id, owner)
  local run_at, suffix = string.match(owner, '^%S+ (%S+) (.+)$')
  add(prefix, suffix, parts_of(prefix .. 'state', suffix), {run_at, id}, true)
end
