-- Counts the jobs of a queue. KEYS: state, owners. ARGV: epoch, prefix of the queue's keys.
-- Returns the number of hints and the number of claimed jobs; nothing if the queue is not open in this epoch.

if not is_open(KEYS[1], ARGV[1]) then return false end
local hints = 0
for _, key in ipairs(lane_keys(KEYS[1], ARGV[2])) do hints = hints + redis.call('ZCARD', key) end
return {hints, redis.call('HLEN', KEYS[2])}
