-- Removes jobs of a lane that must not be handed out any more.
--
-- KEYS: state. ARGV: prefix of the queue's keys, epoch, suffix of the lane, then for each job its time and its id.

local times = times_of(redis.call('HGET', KEYS[1], ARGV[3]))
for i = 4, #ARGV, 2 do
  redis.call('ZREM', place(ARGV[1], ARGV[3], times, ARGV[i]), ARGV[i + 1])
  redis.call('HDEL', documents_key(ARGV[1], ARGV[2], ARGV[i]), ARGV[i + 1])
end
return 1
