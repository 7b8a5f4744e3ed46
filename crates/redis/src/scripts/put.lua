-- Adds jobs of one lane again, or late. Their documents are not cached, so that the claim checks with the primary store first.
--
-- KEYS: state, owners.
-- ARGV: epoch, suffix of the lane, kind (`changed`: the jobs changed; `again`: claimed jobs are skipped; `queued`: as `again`, and all jobs
--   are queued), channel, queue, prefix of the queue's keys, then for each job its time and its id.
-- Returns the number of jobs that were new; nothing if the queue is not open in this epoch.

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
  -- The jobs are sorted by time: the last one is the latest.
  remember_clock(KEYS[1], tonumber(members[#members - 1]))
elseif ARGV[3] == 'changed' then
  -- The jobs have changed: their cached documents are outdated.
  for i = 1, #members, 2 do redis.call('HDEL', documents_key(ARGV[6], ARGV[1], members[i]), members[i + 1]) end
end
-- The time of a job may have changed since its former hint. If that hint is in another part of the lane, the claim that gets it checks with
-- the primary store first, too.
local times = parts_of(KEYS[1], ARGV[2])
local added = add(ARGV[6], ARGV[2], times, members)
if ARGV[3] == 'queued' then
  -- More jobs may be added between the last one and the next known one, so the new part starts at the latter.
  local last = members[#members - 1]
  local behind = redis.call('ZRANGEBYSCORE', place(ARGV[6], ARGV[2], times, last), '(' .. last, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  part(KEYS[1], ARGV[6], ARGV[2], times, last, behind[2] or string.format('%.0f', last + 1))
end
if added > 0 then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
return added
