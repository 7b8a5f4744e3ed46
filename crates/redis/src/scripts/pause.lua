-- Pauses or resumes a queue: a paused queue hands out no jobs. KEYS: state. ARGV: whether the queue is paused.
-- Returns whether the queue exists.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] == '1' then redis.call('HSET', KEYS[1], 'paused', '1') else redis.call('HDEL', KEYS[1], 'paused') end
return 1
