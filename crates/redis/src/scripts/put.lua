-- Tells of jobs of one lane again, or late. Nothing is cached of them, so that their worker asks their owner first.
--
-- KEYS: state, owners.
-- ARGV: epoch, suffix of the lane, what of them (`changed`; `again`: those in somebody's hands are left out; `queued`: again, and all are queued), channel, queue, prefix of the queue's keys,
--   then for each job its time and its id.
-- Returns how many it did not know; nothing if the queue is not open in this epoch.

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return false end
local members, ids = {}, {}
for i = 7, #ARGV, 2 do ids[#ids + 1] = ARGV[i + 1] end
local owners = ARGV[3] ~= 'changed' and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
for i, id in ipairs(ids) do
  if not owners[i] then
    members[#members + 1] = ARGV[5 + 2 * i]
    members[#members + 1] = id
  end
end
if #members == 0 then return 0 end
if ARGV[3] == 'queued' then
  -- In the order of their time.
  remember_clock(KEYS[1], tonumber(members[#members - 1]))
elseif ARGV[3] == 'changed' then
  -- They have changed: what is cached of them is old.
  for i = 1, #members, 2 do redis.call('HDEL', documents_key(ARGV[6], ARGV[1], members[i]), members[i + 1]) end
end
-- A job may have got another time since it was told of last. If its former hint is in another part of the lane, whoever gets it asks first, too.
local times = parts_of(KEYS[1], ARGV[2])
local added = add(ARGV[6], ARGV[2], times, members)
if ARGV[3] == 'queued' then
  -- More may come up to the next one that is known.
  local last = members[#members - 1]
  local behind = redis.call('ZRANGEBYSCORE', place(ARGV[6], ARGV[2], times, last), '(' .. last, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  part(KEYS[1], ARGV[6], ARGV[2], times, last, behind[2] or string.format('%.0f', last + 1))
end
if added > 0 then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
return added
