-- Closes a queue: nothing is handed out any more. KEYS: state, owners.
-- Returns how many jobs are in somebody's hands of which their owner may not know yet.

redis.call('HDEL', KEYS[1], 'epoch')
return redis.call('HLEN', KEYS[2])
