-- Nothing of a queue is handed out while it is paused. KEYS: state. ARGV: whether it is.
-- Returns whether the queue is known.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] == '1' then redis.call('HSET', KEYS[1], 'paused', '1') else redis.call('HDEL', KEYS[1], 'paused') end
return 1
