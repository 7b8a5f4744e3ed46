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

-- Where jobs of an hour are cached.
local function documents_key(prefix, epoch, run_at)
  return prefix .. 'jobs:' .. epoch .. ':' .. string.format('%d', math.floor(tonumber(run_at) / 3600000000))
end
