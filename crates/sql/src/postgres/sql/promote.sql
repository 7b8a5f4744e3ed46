-- Makes scheduled and retrying jobs queued whose time has come, longest overdue first.
-- In: the time (or null), the time before which nothing is expected, how many, the jobs whose options are damaged.
-- Out: the lanes that got something, with the earliest time in each. Index: the head of the primary key.
with c as materialized (
    select d.ctid as place from punctual_due d where d.run_at >= $2::timestamptz and d.run_at <= {now}
    order by d.run_at, d.id limit $3::int8 for update skip locked),
d as (delete from punctual_due where ctid = any (array(select place from c)) returning *),
j as (
    update punctual_jobs j set status = 'queued', updated_at = {now}, events = j.events + 1
    from d where j.scheduled_at = d.scheduled_at and j.id = d.id
    returning j.id, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, case when j.id = any ($4::uuid[]) then null else j.{key} end as limit_key, d.status as was, d.since, d.dispatched),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key, dispatched)
    select run_at, id, {now}, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key,
        -- The dispatcher is informed as the time of a job comes near, unless all come due at once.
        dispatched and coalesce(run_at <= (select due_until from punctual_dispatch), not exists (select from punctual_dispatch_queues))
    from j),
m as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, {now}, limit_key from j where limit_key is not null),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, {now}, since, 'queued' from j),
c2 as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from j group by lane, was
    union all
    select lane, 'queued', count(*) from j group by lane)
select lane, min(run_at) as run_at, count(*) as n, (select set_config('synchronous_commit', 'off', true)) as unused from j group by lane
