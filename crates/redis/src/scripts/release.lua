-- Releases claimed jobs, if the claims still hold them; optionally puts them back into their lanes.
--
-- KEYS: owners.
-- ARGV: prefix of the queue's keys, whether to put the jobs back, then for each claim its token, the number of jobs, and their ids.
-- Returns the number of released jobs.

local at, gone = 3, 0
while at <= #ARGV do
  local token, first, last = ARGV[at] .. ' ', at + 2, at + 1 + tonumber(ARGV[at + 1])
  local owned, ids = redis.call('HMGET', KEYS[1], unpack(ARGV, first, last)), {}
  for i, owner in ipairs(owned) do
    if owner and string.sub(owner, 1, #token) == token then
      ids[#ids + 1] = ARGV[first + i - 1]
      if ARGV[2] == '1' then put_back(ARGV[1], ids[#ids], owner) end
    end
  end
  if #ids > 0 then redis.call('HDEL', KEYS[1], unpack(ids)) end
  at, gone = last + 1, gone + #ids
end
return gone
