-- Records executions that have begun: the first ones of jobs that are as they were when they came.
-- In: the time (or null), lanes, times, ids, when each began, workers, leases. Out: the ids of those that are right. Index: the whole primary key.
with x as (
    delete from punctual_ready r
    using unnest($2::int4[], $3::timestamptz[], $4::uuid[], $5::timestamptz[], $6::uuid[], $7::int8[])
        as s (lane, run_at, id, started_at, worker_id, lease)
    -- The lane not by plain equality: while the table is known to be empty, the server would plan to read it whole for a join. And the others
    -- not like the lane: it would then look only for that in the index.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id and r.run = 0 and r.events = 1
    returning r.*, s.started_at, s.worker_id, s.lease),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, worker_id, started_at + lease * interval '1 microsecond', greatest(started_at, queued_at), queued_at, run_at, run + 1, attempt + 1, events + 1,
        lane, keep_for_ms, user_id, flow
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', bucket, n from g)
select id, (select set_config('synchronous_commit', 'off', true)) from x
