-- Opens a queue in an epoch. Removes all data of earlier epochs.
--
-- KEYS: state, held, owners.
-- ARGV: prefix of the queue's keys, epoch, whether the queue is paused.

for _, key in ipairs(lane_keys(KEYS[1], ARGV[1])) do redis.call('UNLINK', key) end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 5) == 'jobs:' then redis.call('UNLINK', ARGV[1] .. field) end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'server', server_run())
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'paused', '1') end
return 1
