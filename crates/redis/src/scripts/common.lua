-- Functions that all scripts share.

-- Returns the run id of the server and the id of its replication history. A restarted server may have lost its last writes. A server that
-- was a replica meanwhile may have, too: its run id is the same, but its history has another id.
local function server_run()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  return run .. (string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '')
end

-- Whether a queue is open in an epoch, in this run of the server.
local function is_open(state, epoch)
  local known = redis.call('HMGET', state, 'epoch', 'server')
  return known[1] == epoch and known[2] == server_run()
end

-- The queue remembers the latest time of any queued job, so that a queued job may start even if the clock was set back since.
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

-- The key under which jobs of an hour are cached.
local function documents_key(prefix, epoch, run_at)
  return prefix .. 'jobs:' .. epoch .. ':' .. string.format('%d', hour(tonumber(run_at)))
end

-- Called for a new hour, cached under a key with that suffix: removes the fields of hours whose keys have expired.
local function forget_hours(state, documents, suffix)
  local prefix = string.sub(documents, 1, -1 - #suffix)
  for _, field in ipairs(redis.call('HKEYS', state)) do
    if string.sub(field, 1, 5) == 'jobs:' and redis.call('EXISTS', prefix .. field) == 0 then redis.call('HDEL', state, field) end
  end
end

-- A long lane is stored in parts, each a sorted set, so that a claim costs the same among ten million jobs as among ten thousand. The
-- lane's own key contains the jobs before the start time of the first part; each part contains the jobs from its start time on. The queue's
-- state stores these start times in a field named by the lane's suffix.

-- A part with more jobs is ended: later jobs go into a new part.
local PART_MAX_JOBS = 50000
-- Jobs after the end of a part move to the new part, unless there are more than this, which is too much for one step.
local MOVED_MAX_JOBS = 10000

local function part_key(prefix, suffix, from)
  return prefix .. 'part:' .. from .. ':' .. suffix
end

-- Iterates over the start times of a lane's parts, earliest first, from the field of the queue's state.
local function each_time(text)
  return string.gmatch(text or '', '%d+')
end

-- Returns the start times of a lane's parts as a table.
local function times_of(text)
  local times = {}
  for from in each_time(text) do times[#times + 1] = from end
  return times
end

-- Returns the key of a lane that contains jobs of that time.
local function place(prefix, suffix, times, run_at)
  local time = tonumber(run_at)
  for i = #times, 1, -1 do
    if time >= tonumber(times[i]) then return part_key(prefix, suffix, times[i]) end
  end
  return prefix .. suffix
end

-- Returns the start times of a lane's parts, for adding jobs; registers the lane in the queue's state.
local function parts_of(state, suffix)
  local text = redis.call('HGET', state, suffix)
  if not text then redis.call('HSET', state, suffix, '') end
  return times_of(text)
end

-- Adds jobs, each a time and an id, to a lane; with `only_new`, jobs that exist keep their time. Returns the number of jobs that were new.
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

-- Ends the part that contains jobs of time `run_at`, if it is long: a new part starts at `from`.
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

-- Returns every key of every lane of a queue.
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

-- Puts a claimed job back into its lane, which its entry in `owners` names.
local function put_back(prefix, id, owner)
  local run_at, suffix = string.match(owner, '^%S+ (%S+) (.+)$')
  add(prefix, suffix, parts_of(prefix .. 'state', suffix), {run_at, id}, true)
end
