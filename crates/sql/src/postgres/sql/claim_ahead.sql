-- Hands jobs to a worker that will be due within the next instants, each as of its time, first due first.
-- In: the time (or null), the lanes, how far ahead, how many, the worker, the lease, how often anything was said of queues.
-- Out: as claim.sql, without what only a new job's row knows. Index: a range of the primary key.
with c as materialized (
    select d.ctid as place from punctual_due d
    where d.run_at > {now} and d.run_at <= {now} + $3::int8 * interval '1 microsecond' and d.lane = any ($2::int4[])
        and {queues_revision} = $7::int8
    order by d.run_at, d.id limit $4::int8 for update skip locked),
d as (delete from punctual_due where ctid = any (array(select place from c)) returning *),
j as (
    update punctual_jobs j set status = 'queued', updated_at = d.run_at, events = j.events + 1
    from d where j.scheduled_at = d.scheduled_at and j.id = d.id
    returning j.id, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, d.status as was, d.since),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, $5::uuid, run_at + $6::int8 * interval '1 microsecond', run_at, run_at, run_at, run + 1, attempt + 1, events + 1, lane,
        keep_for_ms, user_id, flow
    from j),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, run_at, since, 'queued' from j),
g as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from j group by lane, was
    union all
    select lane, 'processing', count(*) from j group by lane),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', 0, count(*) from j group by 1, 2)
select {now}, (
        select d.run_at from punctual_due d where d.ctid <> all (array(select place from c)) order by d.run_at limit 1) as next_run_at,
    j.id, j.run + 1, j.attempt + 1, j.lane, j.run_at, (select set_config('synchronous_commit', 'off', true))
from (select) t left join j on true
