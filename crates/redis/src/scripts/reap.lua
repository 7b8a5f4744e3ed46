-- Puts jobs back into their lanes that nobody has said anything of for too long, or that a dead worker had.
--
-- KEYS: held, owners.
-- ARGV: prefix of the queue's keys, channel, queue, what the tokens of the dead worker's claims begin with (or an empty text).
-- Returns how many.

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
-- Nearly always it is empty here, or nearly so: what goes well is released within the hundredth part of that time.
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
