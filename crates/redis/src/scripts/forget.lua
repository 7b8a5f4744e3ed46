-- Forgets jobs of a lane that are not to be handed out any more.
--
-- KEYS: lane. ARGV: prefix of the queue's keys, epoch, then for each job its time and its id.

for i = 3, #ARGV, 2 do
  redis.call('ZREM', KEYS[1], ARGV[i + 1])
  redis.call('HDEL', documents_key(ARGV[1], ARGV[2], ARGV[i]), ARGV[i + 1])
end
return 1
