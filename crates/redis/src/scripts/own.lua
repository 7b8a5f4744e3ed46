-- Verifies that this server accepts writes, and that its jobs belong to this run of the primary store's server.
--
-- KEYS: owner.
-- ARGV: the current run, the previous run (or an empty text), how long the ownership lasts (milliseconds).
-- Returns the run that owns the jobs, this server's time (seconds, microseconds), and 1 if there is enough memory to cache jobs.

local owner = redis.call('GET', KEYS[1])
if not owner or owner == ARGV[1] or owner == ARGV[2] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  owner = ARGV[1]
end
local time, memory = redis.call('TIME'), redis.call('INFO', 'memory')
local function bytes(name) return tonumber(string.match(memory, '\n' .. name .. ':(%d+)') or 0) end
local most = bytes('maxmemory')
if most == 0 then most = bytes('total_system_memory') end
return {owner, time[1], time[2], (most == 0 or 2 * bytes('used_memory') < most) and 1 or 0}
