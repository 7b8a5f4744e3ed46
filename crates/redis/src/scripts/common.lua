-- What scripts share.

-- Which run of the server this is. One that has begun anew may have forgotten the last that it was told.
local function server_run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
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

-- Puts a job back into its lane that was in somebody's hands, by what is known of that.
local function put_back(prefix, id, owner)
  local run_at, suffix = string.match(owner, '^%S+ (%S+) (.+)$')
  redis.call('ZADD', prefix .. suffix, 'NX', run_at, id)
end
