-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as ({held}),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, {now}, l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, {now}, queued_at, started_at, lane, run, attempt, worker_id, case when {l.second} is null then {final} else 0 end,
        {l.first}, {l.attempt_status}, {l.error}
    from l),
u as (
    update {jobs} j set status = {l.status}, run_at = case when {l.status} = 'queued' then least(j.run_at, {now}) else coalesce({now} + {l.delay} * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - {l.gives_back}::int4, run = l.run, crash_count = j.crash_count + ({l.attempt_status} = 'lost')::int4,
        updated_at = {now}, started_at = l.started_at, finished_at = case when {l.status} in ('succeeded', 'dead') then {now} end,
        result = coalesce(l.result, j.result), error = coalesce({l.error}, j.error),
        events = l.events + 1 + ({l.second} is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
{active}z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and {l.status} in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select {now} + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, {l.status} as status, {l.attempt_status} as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', {now} - started_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('{was}', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4){lateness}
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d
