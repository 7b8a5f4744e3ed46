-- name: insert_ready
-- Adds a job to the lane of its queue and name.
insert into punctual_ready (queue, name, priority, run_at, job) values (?1, ?2, ?3, ?4, ?5)

-- name: delete_ready
-- Removes a job from its lane. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_ready where queue = ?1 and name = ?2 and priority = ?3 and run_at = ?4 and job = ?5

-- name: delete_lane_head
-- Removes the first jobs of a lane and priority. In: queue, name, priority, the last of them as (run_at, job).
-- Index: a range of the primary key.
delete from punctual_ready where queue = ?1 and name = ?2 and priority = ?3 and (run_at, job) <= (?4, ?5)

-- name: lane_queues
-- The next queue that has ready jobs. In: the queue to start after. Index: one step in the primary key.
select queue from punctual_ready where queue > ?1 order by queue limit 1

-- name: lane_names
-- The next name of a queue that has ready jobs. In: queue, the name to start after. Index: one step in the primary key.
select name from punctual_ready where queue = ?1 and name > ?2 order by name limit 1

-- name: lane_head
-- The head of a lane, in the order in which it is claimed.
-- In: queue, name, the limit, the least and the greatest level (a priority; of suspects 16 more). Out: level, run_at, job. Index: a range
-- of the primary key, no sort. Queued jobs are due by definition, so run_at is not compared with a clock that may have been set back.
select priority, run_at, job from punctual_ready where queue = ?1 and name = ?2 and priority between ?4 and ?5
order by priority desc, run_at, job limit ?3

-- name: insert_due
-- Adds a job that waits for its run_at.
insert into punctual_due (run_at, job) values (?1, ?2)

-- name: delete_due
-- Removes a job from the due jobs. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_due where run_at = ?1 and job = ?2

-- name: due
-- Due jobs, earliest run_at first.
-- In: now, the limit. Out: run_at, job. Index: the head of the primary key.
select run_at, job from punctual_due where run_at <= ?1 order by run_at, job limit ?2

-- name: next_due
-- When the next job is due. Index: the first entry of the primary key.
select min(run_at) from punctual_due

-- name: due_job
-- The columns that the promotion of a due job needs. A damaged job gets no key; the claim that reads it sets it aside. In: job. Out: its
-- status, its lane, its last event, its key, whether it is a suspect. Index: rowid.
select status, queue, name, priority, last_event, case when json_valid(options) then options ->> 'concurrency_key' end, crash_count > 0 from punctual_jobs where seq = ?1

-- name: promote_job
-- Makes a scheduled or retrying job queued. In: job, now, its event. Index: rowid.
update punctual_jobs set status = 'queued', updated_at = ?2, last_event = ?3 where seq = ?1
