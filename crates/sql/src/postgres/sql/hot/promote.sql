-- name: promote
-- Makes scheduled and retrying jobs queued that are due, earliest run_at first.
-- In: the time (or null), the time before which no job is expected, the limit, the jobs whose options are damaged.
-- Out: the lanes that received jobs, with the earliest run_at in each, and counts. Index: the head of the primary key.
with places as materialized (
    select due.ctid as place from punctual_due due where due.run_at >= $2::timestamptz and due.run_at <= {now}
    order by due.run_at, due.id limit $3::int8 for update skip locked),
due as (delete from punctual_due where ctid = any (array(select place from places)) returning *),
jobs as (
    update punctual_jobs jobs set status = 'queued', updated_at = {now}, events = jobs.events + 1
    from due where jobs.scheduled_at = due.scheduled_at and jobs.id = due.id
    returning jobs.id, jobs.lane, jobs.run_at, jobs.attempt, jobs.run, jobs.events, jobs.keep_for_ms, jobs.user_id, jobs.flow, jobs.queue, case when jobs.id = any ($4::uuid[]) then null else jobs.{key} end as limit_key, due.status as was, due.since, due.dispatched),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key, dispatched)
    select run_at, id, {now}, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key,
        -- The dispatcher was informed of a job shortly before its run_at, unless jobs became due faster than it was informed.
        dispatched and coalesce(run_at <= (select due_until from punctual_dispatch), not exists (select from punctual_dispatch_queues))
    from jobs),
wakeups as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, {now}, limit_key from jobs where limit_key is not null),
queued_events as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, {now}, since, 'queued' from jobs),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from jobs group by lane, was
    union all
    select lane, 'queued', count(*) from jobs group by lane)
select lane, min(run_at) as run_at, count(*) as n, (select set_config('synchronous_commit', 'off', true)) as unused from jobs group by lane

-- name: due_options
-- The options of due jobs, earliest run_at first, as text: used if one of them is damaged.
-- In: the time (or null), the time before which no job is expected, the limit. Out: id, options. Index: the head of the primary key.
select d.id, j.options from punctual_due d join punctual_jobs j on j.scheduled_at = d.scheduled_at and j.id = d.id
where d.run_at >= $2::timestamptz and d.run_at <= {now} and j.options is not null order by d.run_at, d.id limit $3::int8

-- name: next_due
-- When the next job is due. In: the time before which no job is expected. Index: the head of the primary key.
select run_at from punctual_due where run_at >= $1::timestamptz order by run_at limit 1
