-- Closes a queue: no more jobs are handed out. KEYS: state, owners.
-- Returns the number of claimed jobs that may not be recorded in the primary store yet.

redis.call('HDEL', KEYS[1], 'epoch')
return redis.call('HLEN', KEYS[2])
