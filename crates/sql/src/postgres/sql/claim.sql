-- Hands queued jobs to a worker: the first ones of all lanes together, by priority, then time, then id.
-- In: the time (or null), the lanes, for each the time and the id before which nothing is expected, how many, the worker, the lease, the
-- time before which no job is expected to be due, how often anything was said of queues as the claim knows, and if there are several lanes
-- the rank of each. Out: one row a job, or one without a job; each with the time of the claim, when the next job is due, and how often
-- anything was said of queues: if the claim did not know, it gets nothing. Index: a range of the primary key for each lane.
with {places},
x as (delete from punctual_ready where ctid = any (array(select place from c)) returning *),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select x.id, $6::uuid, {now} + $7::int8 * interval '1 microsecond', greatest({now}, x.queued_at), x.queued_at, x.run_at, x.run + 1, x.attempt + 1,
        x.events + 1, x.lane, x.keep_for_ms, x.user_id, x.flow, {limit_key}
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', {now} - run_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', bucket, n from g)
select {now}, (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    x.id, x.run + 1, x.attempt + 1, x.lane, x.run_at, x.queued_at, x.max_attempts, x.timeout_ms, x.keep_for_ms, x.ephemeral, x.user_id,
    x.correlation_id, x.unique_key, x.workflow_id, x.options, x.payload, {queues_revision}, (select set_config('synchronous_commit', 'off', true))
from (select) t left join x on true
