-- name: any_keyed
-- Whether any job with a key is queued. Index: one step in the primary key.
select exists (select 1 from punctual_keyed where queue > '')

-- name: insert_keyed
-- Adds a job to the queued ones of its key. In: queue, key, name, priority, run_at, job.
insert into punctual_keyed (queue, key, name, priority, run_at, job) values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: delete_keyed
-- Removes a job from the queued ones of its key. Index: the whole primary key.
delete from punctual_keyed where queue = ?1 and key = ?2 and name = ?3 and priority = ?4 and run_at = ?5 and job = ?6

-- name: keyed_name
-- The next name of a key's queued jobs. In: queue, key, the name to start after. Index: one step in the primary key.
select name from punctual_keyed where queue = ?1 and key = ?2 and name > ?3 order by name limit 1

-- name: keyed_first
-- The first jobs of a key and name, in the order in which they start.
-- In: queue, key, name, the limit, the least and the greatest level. Out: level, run_at, job. Index: a range of the primary key, no sort.
select priority, run_at, job from punctual_keyed where queue = ?1 and key = ?2 and name = ?3 and priority between ?5 and ?6
order by priority desc, run_at, job limit ?4

-- name: held_of_key
-- How many jobs of a key are running, including slots occupied by cancelled jobs. In: queue, key, now.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key.
select (select count(*) from punctual_running where queue = ?1 and limit_key = ?2)
    + (select count(*) from punctual_occupied_slots where queue = ?1 and limit_key = ?2 and lease_until > ?3)

-- name: held_of_queue
-- How many jobs of a queue are running, including slots occupied by cancelled jobs. In: queue, now.
-- Index: a range of the counters' primary key, and of punctual_occupied_slots_limit_key.
select (select coalesce(sum(n), 0) from punctual_counts where queue = ?1 and status = 'processing')
    + (select count(*) from punctual_occupied_slots where queue = ?1 and lease_until > ?2)

-- name: heads
-- The keys of a queue and name that have a job to start, in the order of their first jobs.
-- In: queue, name, the limit, the least and the greatest level. Out: key. Index: a range of the primary key, no sort.
select key from punctual_limit_heads where queue = ?1 and name = ?2 and priority between ?4 and ?5
order by priority desc, turn, run_at, job limit ?3

-- name: head_queue
-- The next queue that has a key with a job to start. In: the queue to start after. Index: one step in the primary key.
select queue from punctual_limit_heads where queue > ?1 order by queue limit 1

-- name: head_name
-- The next name of a queue that has a key with a job to start. In: queue, the name to start after. Index: one step in the primary key.
select name from punctual_limit_heads where queue = ?1 and name > ?2 order by name limit 1

-- name: insert_head
-- Stores the first job that a key may start. In: queue, name, priority, turn, run_at, job, key.
insert into punctual_limit_heads (queue, name, priority, turn, run_at, job, key) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: delete_heads
-- Deletes the heads of a key: none of its jobs is known to be allowed to start. In: queue, key. Index: punctual_limit_heads_key.
delete from punctual_limit_heads where queue = ?1 and key = ?2

-- name: insert_wakeup
-- Adds a wakeup: the key is to be checked from a time on. In: queue, time, key.
insert or ignore into punctual_limit_wakeups (queue, at, key) values (?1, ?2, ?3)

-- name: delete_wakeup
-- Deletes the wakeup of a key that has been checked. In: queue, time, key. Index: the whole primary key.
delete from punctual_limit_wakeups where queue = ?1 and at = ?2 and key = ?3

-- name: due_wakeups
-- The keys of a queue that are to be checked now. In: queue, now, the limit. Out: time, key. Index: the head of a range of the primary key.
select at, key from punctual_limit_wakeups where queue = ?1 and at <= ?2 order by at, key limit ?3

-- name: next_wakeup
-- When the next key of a queue is to be checked. In: queue, the time to start after. Index: one step in the primary key.
select min(at) from punctual_limit_wakeups where queue = ?1 and at > ?2

-- name: wake_queue
-- Adds wakeups for all keys of a queue with queued jobs. In: queue. Index: a range of the primary key.
insert or ignore into punctual_limit_wakeups (queue, at, key) select queue, 0, key from punctual_keyed where queue = ?1 group by queue, key

-- name: queue_with_wakeup
-- The next queue that has keys to check. In: the queue to start after. Index: one step in the primary key.
select queue from punctual_limit_wakeups where queue > ?1 order by queue limit 1

-- name: starts
-- Recent starts under a limit. In: queue, key (empty for the queue's own), the time to start after. Index: a range of the primary key.
select at, n from punctual_limit_starts where queue = ?1 and key = ?2 and at > ?3

-- name: add_start
-- Counts starts under a limit. In: queue, key, time, the count.
insert into punctual_limit_starts (queue, key, at, n) values (?1, ?2, ?3, ?4) on conflict (queue, key, at) do update set n = n + excluded.n

-- name: late_starts
-- Starts of a queue that are counted at a time after now. In: queue, now. Out: key, the count. Index: all rows of the queue.
select key, sum(n) from punctual_limit_starts where queue = ?1 and at > ?2 group by key

-- name: delete_late_starts
-- Deletes the rows of late_starts. In: queue, now. Index: all rows of the queue.
delete from punctual_limit_starts where queue = ?1 and at > ?2

-- name: queue_with_starts
-- The next queue that has starts. In: the queue to start after. Index: one step in the primary key.
select queue from punctual_limit_starts where queue > ?1 order by queue limit 1

-- name: prune_starts
-- Deletes starts of a queue that rates no longer count. In: queue, the last time. Index: all rows of the queue.
delete from punctual_limit_starts where queue = ?1 and at <= ?2

-- name: delete_old_starts
-- Deletes starts that rates no longer count. In: queue, key, the last time. Index: a range of the primary key.
delete from punctual_limit_starts where queue = ?1 and key = ?2 and at <= ?3

-- name: turn
-- The turn of a key, or with an empty key, of its queue. In: queue, key. Index: primary key.
select turn from punctual_limit_fairness where queue = ?1 and key = ?2

-- name: save_turn
-- Stores the turn of a key or a queue. In: queue, key, turn.
insert into punctual_limit_fairness (queue, key, turn) values (?1, ?2, ?3) on conflict (queue, key) do update set turn = excluded.turn

-- name: queue_with_turns
-- The next queue whose keys have turns. In: the queue to start after. Index: one step in the primary key.
select queue from punctual_limit_fairness where queue > ?1 order by queue limit 1

-- name: prune_turns
-- Deletes the turns of a queue that is no longer fair. In: queue. Index: all rows of the queue.
delete from punctual_limit_fairness where queue = ?1

-- name: delete_old_turns
-- Deletes keys that are behind their queue: they are treated as keys without a row. In: queue, its turn. Index: all rows of the queue; runs
-- once per round.
delete from punctual_limit_fairness where queue = ?1 and turn <= ?2 and key <> ''

-- name: insert_slot
-- Stores the slot that the execution of a cancelled job occupies. In: id, run, worker, queue, limit_key, the end of its lease.
insert or ignore into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until) values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: find_slot
-- The slot that a worker's execution occupies. In: id, run, worker. Index: primary key.
select job_id, run, queue, limit_key, lease_until from punctual_occupied_slots where job_id = ?1 and run = ?2 and worker_id = ?3

-- name: slots_of_worker
-- The slots that a worker's executions occupy. In: worker. Reads the whole table, which has few rows.
select job_id, run, queue, limit_key, lease_until from punctual_occupied_slots where worker_id = ?1

-- name: occupied_slots
-- The occupied slots of a queue and its keys. In: queue, now. Reads the whole table, which has few rows, in the order of its primary key.
select job_id, run, worker_id, limit_key, lease_until from punctual_occupied_slots where queue = ?1 and lease_until > ?2 order by job_id, run

-- name: delete_slot
-- Releases the slot of an execution. In: id, run. Index: primary key.
delete from punctual_occupied_slots where job_id = ?1 and run = ?2

-- name: delete_slot_wakeup
-- Deletes the wakeup of a key at the end of a lease, unless another slot's lease ends then. In: queue, time, key.
-- Index: the whole primary key of wakeups, punctual_occupied_slots_limit_key.
delete from punctual_limit_wakeups where queue = ?1 and at = ?2 and key = ?3
    and not exists (select 1 from punctual_occupied_slots s where s.queue = ?1 and s.limit_key = ?3 and s.lease_until = ?2)

-- name: prune_slots
-- Deletes slots whose leases have ended. In: now. Reads the whole table, which has few rows.
delete from punctual_occupied_slots where lease_until <= ?1

-- name: limited_queues
-- The queues that are paused, and those that are limited. Reads the whole index punctual_queues_limited, which is small.
select name, paused, settings from punctual_queues where paused = 1 or limited = 1
