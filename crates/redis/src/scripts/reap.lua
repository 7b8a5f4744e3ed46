-- Puts jobs back into their lanes that nobody has said anything of for too long.
--
-- KEYS: held, owners.
-- ARGV: prefix of the queue's keys, how many at most, channel, queue.
-- Returns how many.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
if #ids == 0 then return 0 end
local owners = redis.call('HMGET', KEYS[2], unpack(ids))
for i, owner in ipairs(owners) do
  if owner then
    local run_at, suffix = string.match(owner, '^%S+ (%S+) (.+)$')
    redis.call('ZADD', ARGV[1] .. suffix, 'NX', run_at, ids[i])
  end
end
redis.call('ZREM', KEYS[1], unpack(ids))
redis.call('HDEL', KEYS[2], unpack(ids))
redis.call('PUBLISH', ARGV[3], ARGV[4])
return #ids
