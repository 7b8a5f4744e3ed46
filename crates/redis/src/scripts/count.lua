-- Counts what a queue has. KEYS: state, owners. ARGV: epoch, prefix of the queue's keys.
-- Returns how many hints, and how many jobs are in somebody's hands; nothing if the queue is not open in this epoch.

if not is_open(KEYS[1], ARGV[1]) then return false end
local hints = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 6) == 'ready:' then hints = hints + redis.call('ZCARD', ARGV[2] .. field) end
end
return {hints, redis.call('HLEN', KEYS[2])}
