-- Takes locks that are free, expired, or held by the same owner.
--
-- KEYS: the locks. ARGV: owner, now and until (microseconds, the primary store's time), lifetime of the keys (milliseconds).
-- Returns 1 or 0 for each lock.

local answer = {}
for i, key in ipairs(KEYS) do
  local till, owner = string.match(redis.call('GET', key) or '', '^(%S+) (.*)$')
  if not till or owner == ARGV[1] or tonumber(till) <= tonumber(ARGV[2]) then
    redis.call('SET', key, ARGV[3] .. ' ' .. ARGV[1], 'PX', ARGV[4])
    answer[i] = 1
  else
    answer[i] = 0
  end
end
return answer
