-- Puts jobs back into their lanes whose claims have expired, or that a dead worker had claimed.
--
-- KEYS: held, owners.
-- ARGV: prefix of the queue's keys, channel, queue, prefix of the tokens of the dead worker's claims (or an empty text: expired claims).
-- Returns the number of jobs that were put back.

local dead, tokens = ARGV[4], {}
if dead == '' then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  tokens = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
else
  for _, token in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if string.sub(token, 1, #dead) == dead then tokens[#tokens + 1] = token end
  end
end
if #tokens == 0 then return 0 end
local overdue, back = {}, 0
for _, token in ipairs(tokens) do
  redis.call('ZREM', KEYS[1], token)
  overdue[token] = true
end
-- This hash is nearly always almost empty: normally a job is released within a hundredth of the hold time.
local owned = redis.call('HGETALL', KEYS[2])
for i = 1, #owned, 2 do
  if overdue[string.match(owned[i + 1], '^%S+')] then
    put_back(ARGV[1], owned[i], owned[i + 1])
    redis.call('HDEL', KEYS[2], owned[i])
    back = back + 1
  end
end
if back > 0 then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return back
