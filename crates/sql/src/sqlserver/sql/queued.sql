-- name: insert_ready
-- Adds a job to the lane of its queue and name.
insert into punctual_ready (queue, name, priority, run_at, job)
select i.queue, i.name, i.priority, i.run_at, i.job
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', run_at bigint '$[3]', job bigint '$[4]') i

-- name: delete_ready
-- Removes a job from its lane. Rows changed: 1 if it existed. Index: the whole primary key.
delete t from punctual_ready t with (forceseek, rowlock) join openjson(@P1) with (
    queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', run_at bigint '$[3]', job bigint '$[4]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.name = i.name collate Latin1_General_BIN2 and t.priority = i.priority and t.run_at = i.run_at and t.job = i.job

-- name: delete_lane_head
-- Removes the first jobs of a lane and priority. In: queue, name, priority, the last of them as (run_at, job).
-- Index: a range of the primary key.
delete from punctual_ready where queue = @P1 and name = @P2 and priority = @P3 and (run_at < @P4 or run_at = @P4 and job <= @P5)

-- name: lane_queues
-- The next queue that has ready jobs. In: the queue to start after. Index: one step in the primary key.
select top (1) queue from punctual_ready with (readcommittedlock, readpast, rowlock) where queue > @P1 order by queue

-- name: lane_names
-- The next name of a queue that has ready jobs. In: queue, the name to start after. Index: one step in the primary key.
select top (1) name from punctual_ready with (readcommittedlock, readpast, rowlock) where queue = @P1 and name > @P2 order by name

-- name: lane_head
-- The heads of lanes, in the order in which they are claimed. Rows that another transaction is claiming are skipped. In: queue, name, the
-- limit, the least and the greatest level (a priority; of suspects 16 more). Out: level, run_at, job. Index: a range of the primary key for
-- each, no sort. Queued jobs are due by definition, so run_at is not compared with a clock that may have been set back.
select r.priority, r.run_at, r.job, i.place
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', many int '$[2]', first tinyint '$[3]', last tinyint '$[4]', place int '$[5]') i
cross apply (
    select top (i.many) * from punctual_ready with (forceseek, updlock, readpast, rowlock)
    where queue = i.queue collate Latin1_General_BIN2 and name = i.name collate Latin1_General_BIN2
        and priority between i.first and i.last
    order by priority desc, run_at, job) r
order by i.place, r.priority desc, r.run_at, r.job

-- name: insert_due
-- Adds a job that waits for its run_at.
insert into punctual_due (run_at, job)
select i.run_at, i.job
from openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i

-- name: delete_due
-- Removes a job from the due jobs. Rows changed: 1 if it existed. Index: the whole primary key.
delete t from punctual_due t with (forceseek, rowlock) join openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i
on t.run_at = i.run_at and t.job = i.job

-- name: due
-- Due jobs, earliest run_at first.
-- In: now, the limit. Out: run_at, job. Index: the head of the primary key.
select top (@P2) run_at, job from punctual_due with (readcommittedlock, readpast, rowlock) where run_at <= @P1 order by run_at, job

-- name: next_due
-- When the next job is due. Index: the first entry of the primary key.
select min(run_at) from punctual_due with (readcommittedlock, readpast, rowlock)

-- name: due_job
-- The columns that the promotion of a due job needs. A damaged job gets no key; the claim that reads it sets it aside. In: job. Out: its
-- status, its lane, its last event, its key, whether it is a suspect. Index: primary key.
select j.status, j.queue, j.name, j.priority, j.last_event, case when isjson(j.options) = 1 then json_value(j.options, '$.concurrency_key') end, iif(j.crash_count > 0, 1, 0), i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq

-- name: promote_job
-- Makes a scheduled or retrying job queued. In: job, now, its event. Index: primary key.
update j set status = 'queued', updated_at = i.now, last_event = i.event
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', now bigint '$[1]', event bigint '$[2]') i on j.seq = i.seq
