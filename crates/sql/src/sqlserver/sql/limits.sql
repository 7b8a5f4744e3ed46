-- name: any_keyed
-- Whether any job with a key is queued. Index: one step in the primary key.
select case when exists (select 1 from punctual_keyed) then 1 else 0 end

-- name: insert_keyed
-- Adds a job to the queued ones of its key. In: queue, key, name, priority, run_at, job.
insert into punctual_keyed (queue, [key], name, priority, run_at, job, hash)
select i.queue, i.[key], i.name, i.priority, i.run_at, i.job, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (
    queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', priority tinyint '$[3]', run_at bigint '$[4]',
    job bigint '$[5]') i

-- name: delete_keyed
-- Removes a job from the queued ones of its key. Index: the whole primary key.
delete t from punctual_keyed t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', priority tinyint '$[3]', run_at bigint '$[4]', job bigint '$[5]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name = i.name collate Latin1_General_BIN2 and t.priority = i.priority and t.run_at = i.run_at and t.job = i.job

-- name: keyed_name
-- The next name of a key's queued jobs. In: queue, key, the name to start after. Index: one step in the primary key.
select k.name, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', place int '$[3]') i
cross apply (select top (1) name from punctual_keyed t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name > i.name collate Latin1_General_BIN2 order by t.name) k

-- name: keyed_first
-- The first jobs of a key and name, in the order in which they start.
-- In: queue, key, name, the limit, the least and the greatest level. Out: level, run_at, job. Index: a range of the primary key, no sort.
select k.priority, k.run_at, k.job, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', many int '$[3]', first tinyint '$[4]', last tinyint '$[5]', place int '$[6]') i
cross apply (select top (i.many) priority, run_at, job from punctual_keyed t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name = i.name collate Latin1_General_BIN2
        and t.priority between i.first and i.last
    order by t.priority desc, t.run_at, t.job) k
order by i.place, k.priority desc, k.run_at, k.job

-- name: held_of_key
-- How many jobs of a key are running, including slots occupied by cancelled jobs. In: queue, key, now.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key.
select (select count(*) from punctual_running r where r.queue = i.queue collate Latin1_General_BIN2 and r.limit_key is not null and r.limit_key_hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))
    + (select count(*) from punctual_occupied_slots s where s.queue = i.queue collate Latin1_General_BIN2 and s.limit_key_hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.lease_until > i.now), i.place
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', now bigint '$[2]', place int '$[3]') i

-- name: held_of_queue
-- How many jobs of a queue are running, including slots occupied by cancelled jobs. In: queue, now.
-- Index: a range of the primary key, and of punctual_occupied_slots_limit_key. Uncommitted changes of applications are not counted.
select (select coalesce(sum(n), 0) from punctual_counts with (readcommittedlock, readpast, rowlock) where queue = @P1 and status = 'processing')
    + (select count(*) from punctual_occupied_slots where queue = @P1 and lease_until > @P2)

-- name: heads
-- The keys of a queue and name that have a job to start, in the order of their first jobs.
-- In: queue, name, the limit, the least and the greatest level. Out: key. Index: a range of the primary key, no sort.
select h.[key], i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', many int '$[2]', first tinyint '$[3]', last tinyint '$[4]', place int '$[5]') i
cross apply (select top (i.many) * from punctual_limit_heads t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.name = i.name collate Latin1_General_BIN2
        and t.priority between i.first and i.last
    order by t.priority desc, t.turn, t.run_at, t.job) h
order by i.place, h.priority desc, h.turn, h.run_at, h.job

-- name: head_queue
-- The next queue that has a key with a job to start. In: the queue to start after. Index: one step in the primary key.
select top (1) queue from punctual_limit_heads where queue > @P1 order by queue

-- name: head_name
-- The next name of a queue that has a key with a job to start. In: queue, the name to start after. Index: one step in the primary key.
select top (1) name from punctual_limit_heads where queue = @P1 and name > @P2 order by name

-- name: insert_head
-- Stores the first job that a key may start. In: queue, name, priority, turn, run_at, job, key.
insert into punctual_limit_heads (queue, name, priority, turn, run_at, job, [key], hash)
select i.queue, i.name, i.priority, i.turn, i.run_at, i.job, i.[key], cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (
    queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', turn bigint '$[3]', run_at bigint '$[4]', job bigint '$[5]',
    [key] nvarchar(1024) '$[6]') i

-- name: delete_heads
-- Deletes the heads of a key: none of its jobs is known to be allowed to start. In: queue, key. Index: punctual_limit_heads_key.
delete t from punctual_limit_heads t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))

-- name: insert_wakeup
-- Adds a wakeup: the key is to be checked from a time on. In: queue, time, key.
insert into punctual_limit_wakeups (queue, at, [key], hash)
select distinct i.queue collate Latin1_General_BIN2, i.at, i.[key] collate Latin1_General_BIN2, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', at bigint '$[1]', [key] nvarchar(1024) '$[2]') i
where not exists (select 1 from punctual_limit_wakeups m with (forceseek) where m.queue = i.queue collate Latin1_General_BIN2 and m.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and m.at = i.at)

-- name: delete_wakeup
-- Deletes the wakeup of a key that has been checked. In: queue, time, key. Index: the whole primary key.
delete t from punctual_limit_wakeups t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', at bigint '$[1]', [key] nvarchar(1024) '$[2]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.at = i.at

-- name: due_wakeups
-- The keys of a queue that are to be checked now. In: queue, now, the limit. Out: time, key. Index: the head of a range of the primary key.
select top (@P3) at, [key] from punctual_limit_wakeups where queue = @P1 and at <= @P2 order by at, hash

-- name: next_wakeup
-- When the next key of a queue is to be checked. In: queue, the time to start after. Index: one step in the primary key.
select min(at) from punctual_limit_wakeups where queue = @P1 and at > @P2

-- name: wake_queue
-- Adds wakeups for all keys of a queue with queued jobs. In: queue. Index: a range of the primary key.
insert into punctual_limit_wakeups (queue, at, [key], hash)
select k.queue, 0, k.[key], k.hash from punctual_keyed k where k.queue = @P1
    and not exists (select 1 from punctual_limit_wakeups m where m.queue = k.queue and m.at = 0 and m.hash = k.hash)
group by k.queue, k.[key], k.hash

-- name: queue_with_wakeup
-- The next queue that has keys to check. In: the queue to start after. Index: one step in the primary key.
select top (1) queue from punctual_limit_wakeups where queue > @P1 order by queue

-- name: starts
-- Recent starts under a limit. In: queue, key (empty for the queue's own), the time to start after. Index: a range of the primary key.
select s.at, s.n, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', after bigint '$[2]', place int '$[3]') i
join punctual_limit_starts s with (forceseek) on s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at > i.after

-- name: add_start
-- Counts starts under a limit. In: queue, key, time, the count.
update s set n = s.n + i.n
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', at bigint '$[2]', n bigint '$[3]') i
join punctual_limit_starts s with (forceseek, rowlock) on s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at = i.at;
insert into punctual_limit_starts (queue, [key], at, n, hash)
select i.queue, i.[key], i.at, i.n, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', at bigint '$[2]', n bigint '$[3]') i
where not exists (select 1 from punctual_limit_starts s with (forceseek) where s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at = i.at)

-- name: late_starts
-- Starts of a queue that are counted at a time after now. In: queue, now. Out: key, the count. Index: all rows of the queue.
select [key], sum(n) from punctual_limit_starts where queue = @P1 and at > @P2 group by [key]

-- name: delete_late_starts
-- Deletes the rows of late_starts. In: queue, now. Index: all rows of the queue.
delete from punctual_limit_starts where queue = @P1 and at > @P2

-- name: queue_with_starts
-- The next queue that has starts. In: the queue to start after. Index: one step in the primary key.
select top (1) queue from punctual_limit_starts where queue > @P1 order by queue

-- name: prune_starts
-- Deletes starts of a queue that rates no longer count. In: queue, the last time. Index: all rows of the queue.
delete from punctual_limit_starts where queue = @P1 and at <= @P2

-- name: delete_old_starts
-- Deletes starts that rates no longer count. In: queue, key, the last time. Index: a range of the primary key.
delete t from punctual_limit_starts t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', until bigint '$[2]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.at <= i.until

-- name: turn
-- The turn of a key, or with an empty key, of its queue. In: queue, key. Index: primary key.
select t.turn, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', place int '$[2]') i join punctual_limit_fairness t with (forceseek) on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))

-- name: save_turn
-- Stores the turn of a key or a queue. In: queue, key, turn.
update t set turn = i.turn
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', turn bigint '$[2]') i
join punctual_limit_fairness t with (forceseek, rowlock) on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32));
insert into punctual_limit_fairness (queue, [key], turn, hash)
select i.queue, i.[key], i.turn, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', turn bigint '$[2]') i
where not exists (select 1 from punctual_limit_fairness t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))

-- name: queue_with_turns
-- The next queue whose keys have turns. In: the queue to start after. Index: one step in the primary key.
select top (1) queue from punctual_limit_fairness where queue > @P1 order by queue

-- name: prune_turns
-- Deletes the turns of a queue that is no longer fair. In: queue. Index: all rows of the queue.
delete from punctual_limit_fairness where queue = @P1

-- name: delete_old_turns
-- Deletes keys that are behind their queue: they are treated as keys without a row. In: queue, its turn. Index: all rows of the queue; runs
-- once per round.
delete from punctual_limit_fairness where queue = @P1 and turn <= @P2 and [key] <> ''

-- name: insert_slot
-- Stores the slot that the execution of a cancelled job occupies. In: id, run, worker, queue, limit_key, the end of its lease.
insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until, limit_key_hash)
select cast(cast(i.job_id as uniqueidentifier) as binary(16)), i.run, cast(cast(i.worker_id as uniqueidentifier) as binary(16)), i.queue, i.limit_key, i.lease_until, cast(hashbytes('sha2_256', i.limit_key) as binary(32))
from openjson(@P1) with (
    job_id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', queue nvarchar(256) '$[3]', limit_key nvarchar(1024) '$[4]', lease_until bigint '$[5]') i
where not exists (select 1 from punctual_occupied_slots s with (forceseek) where s.job_id = cast(cast(i.job_id as uniqueidentifier) as binary(16)) and s.run = i.run)

-- name: find_slot
-- The slot that a worker's execution occupies. In: id, run, worker. Index: primary key.
select s.job_id, s.run, s.queue, s.limit_key, s.lease_until, i.place
from openjson(@P1) with (id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', place int '$[3]') i
join punctual_occupied_slots s with (forceseek) on s.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and s.run = i.run and s.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))

-- name: slots_of_worker
-- The slots that a worker's executions occupy. In: worker. Reads the whole table, which has few rows.
select job_id, run, queue, limit_key, lease_until from punctual_occupied_slots where worker_id = @P1

-- name: occupied_slots
-- The occupied slots of a queue and its keys. In: queue, now. Index: a range of punctual_occupied_slots_limit_key. Sorts the rows found,
-- which are few.
select job_id, run, worker_id, limit_key, lease_until from punctual_occupied_slots where queue = @P1 and lease_until > @P2 order by job_id, run

-- name: delete_slot
-- Releases the slot of an execution. In: id, run. Index: primary key.
delete t from punctual_occupied_slots t with (forceseek, rowlock) join openjson(@P1) with (id char(36) '$[0]', run int '$[1]') i
on t.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and t.run = i.run

-- name: delete_slot_wakeup
-- Deletes the wakeup of a key at the end of a lease, unless another slot's lease ends then. In: queue, time, key.
-- Index: the whole primary key of wakeups, punctual_occupied_slots_limit_key.
delete t from punctual_limit_wakeups t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', at bigint '$[1]', [key] nvarchar(1024) '$[2]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.at = i.at
where not exists (select 1 from punctual_occupied_slots s where s.queue = t.queue and s.limit_key_hash = t.hash and s.lease_until = t.at)

-- name: prune_slots
-- Deletes slots whose leases have ended. In: now. Reads the whole table, which has few rows.
delete from punctual_occupied_slots where lease_until <= @P1

-- name: limited_queues
-- The queues that are paused, and those that are limited. Reads the whole index punctual_queues_limited, which is small.
select name, paused, settings from punctual_queues where paused = 1 or limited = 1
