-- Frees locks that the owner holds. KEYS: the locks. ARGV: owner. Returns the number of freed locks.

local freed = 0
for _, key in ipairs(KEYS) do
  if string.match(redis.call('GET', key) or '', '^%S+ (.*)$') == ARGV[1] then freed = freed + redis.call('DEL', key) end
end
return freed
