-- name: counts
-- The number of jobs by queue, name and status. Reads two small tables whole.
select l.queue, l.name, c.status, sum(c.n)::int8
from (select * from punctual_counts union all select * from punctual_counts_new) c join punctual_lanes l on l.lane = c.lane
group by l.queue, l.name, c.status having sum(c.n) > 0

-- name: pending
-- Unfinished jobs by user and name. Reads two small tables whole: one row for each user and name that has any.
select user_id, name, sum(n)::int8
from (select * from punctual_pending union all select * from punctual_pending_new) p
group by user_id, name having sum(n) > 0

-- name: dead_by_name
-- The number of jobs, by name, that died in a period and are still dead. In: since, until. Index: a range of punctual_events_dead,
-- index-only.
select l.name, sum(d.n)::int8 from (
    select e.lane, count(*) as n from punctual_events e
    where e.final = 1 and e.at >= $1::timestamptz and e.at < $2::timestamptz group by e.lane) d
join punctual_lanes l on l.lane = d.lane
group by l.name order by 2 desc, 1

-- name: rollups
-- Rollups of a range of hours. In: first hour, end. Index: a range of the primary key; and a small table whole.
select l.name, l.queue, t.measure, t.bucket, sum(t.n)::int8 from (
    select * from punctual_rollups where hour >= $1::timestamptz and hour < $2::timestamptz
    union all
    select * from punctual_rollups_new where hour >= $1::timestamptz and hour < $2::timestamptz) t
join punctual_lanes l on l.lane = t.lane
group by l.name, l.queue, t.measure, t.bucket

-- name: roll_up_counts
-- Adds pending changes to the counters of jobs.
with deleted_counts as (delete from punctual_counts_new returning *)
insert into punctual_counts as c (lane, status, n)
select lane, status, sum(n) from deleted_counts group by lane, status order by lane, status
on conflict (lane, status) do update set n = c.n + excluded.n

-- name: roll_up_pending
-- Adds pending changes to the counters of users' unfinished jobs.
with deleted_pending as (delete from punctual_pending_new returning *)
insert into punctual_pending as c (user_id, name, n)
select user_id, name, sum(n) from deleted_pending group by user_id, name order by user_id, name
on conflict (user_id, name) do update set n = c.n + excluded.n

-- name: roll_up_rollups
-- Adds pending changes to the rollups.
with deleted_rollups as (delete from punctual_rollups_new returning *)
insert into punctual_rollups as c (hour, lane, measure, bucket, n)
select hour, lane, measure, bucket, sum(n) from deleted_rollups group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (hour, lane, measure, bucket) do update set n = c.n + excluded.n

-- name: roll_up_ends
-- Adds pending ends of jobs to the counters of their workflows.
with deleted_ends_pending as (delete from punctual_ends_pending returning *)
update punctual_workflows w set succeeded = w.succeeded + s.succeeded, dead = w.dead + s.dead, cancelled = w.cancelled + s.cancelled,
    updated_at = greatest(w.updated_at, s.at)
from (
    select workflow, max(at) as at, sum(succeeded)::int4 as succeeded, sum(dead)::int4 as dead, sum(cancelled)::int4 as cancelled
    from deleted_ends_pending group by workflow) s
where w.id = s.workflow
