-- Lets go of jobs that a claim took, as far as they are still in its hands; into their lanes again, if they were not wanted.
--
-- KEYS: held, owners.
-- ARGV: prefix of the queue's keys, whether to put them back, then for each job its id and the token of its claim.
-- Returns how many it let go.

local ids, tokens = {}, {}
for i = 3, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  tokens[#tokens + 1] = ARGV[i + 1]
end
local owners, gone = redis.call('HMGET', KEYS[2], unpack(ids)), {}
for i, owner in ipairs(owners) do
  if owner and string.sub(owner, 1, #tokens[i] + 1) == tokens[i] .. ' ' then
    gone[#gone + 1] = ids[i]
    if ARGV[2] == '1' then
      local run_at, suffix = string.match(owner, '^%S+ (%S+) (.+)$')
      redis.call('ZADD', ARGV[1] .. suffix, 'NX', run_at, ids[i])
    end
  end
end
if #gone > 0 then
  redis.call('ZREM', KEYS[1], unpack(gone))
  redis.call('HDEL', KEYS[2], unpack(gone))
end
return #gone
