-- name: settle_text
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as ({held}),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, {now}, ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, {now}, queued_at, started_at, lane, run, attempt, worker_id, case when {ended.second} is null then {final} else 0 end,
        {ended.first}, {ended.attempt_status}, {ended.error}
    from ended),
updated as (
    update {jobs} j set status = {ended.status}, run_at = case when {ended.status} = 'queued' then least(j.run_at, {now}) else coalesce({now} + {ended.delay} * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - {ended.gives_back}::int4, run = ended.run, crash_count = j.crash_count + ({ended.attempt_status} = 'lost')::int4,
        updated_at = {now}, started_at = ended.started_at, finished_at = case when {ended.status} in ('succeeded', 'dead') then {now} end,
        result = coalesce(ended.result, j.result), error = coalesce({ended.error}, j.error),
        events = ended.events + 1 + ({ended.second} is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
{active}finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and {ended.status} in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select {now} + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, {ended.status} as status, {ended.attempt_status} as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', {now} - started_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('{was}', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4){lateness}
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d

-- name: settle_rows
-- The rows of settle: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)

-- name: settle_rows_alike
-- The rows of settle if all executions ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)

-- name: settle_held
-- The executions that settle ends.
    delete from punctual_running r using {rows}
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = {s.worker_id} and (not {s.only_if_expired} or r.lease_until <= {now}){unless_flow}
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at{returning}

-- name: settle_queued
-- The executions that settle ends, if they are not recorded yet: the first ones of jobs that have not changed since their enqueue.
-- Additional parameters: lanes, run_ats, the starts.
    delete from punctual_ready r
    using unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[])
        as s (id, scheduled_at, run, result, lane, run_at, started_at)
    -- The lane is not compared by plain equality, for the same reason as in begin.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id
        and r.run = 0 and r.events = 1 and not r.flow
    returning r.id, s.scheduled_at, s.run, r.attempt + 1 as attempt, $6::uuid as worker_id, greatest(s.started_at, r.queued_at) as started_at, r.queued_at, r.events + 1 as events,
        r.lane, r.keep_for_ms, r.user_id, r.flow, null::text as limit_key, s.result, r.run_at

-- name: settle_lateness
,
lateness as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness',
        width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), {buckets}), count(*)
    from ended group by 1, 2, 4)

-- name: settle_active
-- The part of settle for executions that do not end their job at once: the job runs again, or ends with a second event.
second_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, {now}, {now}, lane, run, {final}, {ended.second} from ended where {ended.second} is not null),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, {now}), id, {now}, lane, attempt - {ended.gives_back}::int4, run,
        events + 1 + ({ended.second} is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from ended where {ended.status} = 'queued'),
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select {now} + {ended.delay} * interval '1 microsecond', id, scheduled_at, {now}, lane, {ended.status}
    from ended where {ended.status} in ('scheduled', 'retrying')),

-- name: begin
-- Records executions that have begun: the first ones of jobs that have not changed since their enqueue. In: the time (or null), lanes,
-- run_ats, ids, starts, workers, leases. Out: the ids of those that were recorded. Index: the whole primary key.
with begun as (
    delete from punctual_ready r
    using unnest($2::int4[], $3::timestamptz[], $4::uuid[], $5::timestamptz[], $6::uuid[], $7::int8[])
        as s (lane, run_at, id, started_at, worker_id, lease)
    -- The lane is not compared by plain equality: while the table is known to be empty, the planner would join by a full scan. The other
    -- columns are: otherwise only the lane would be searched for in the index.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id and r.run = 0 and r.events = 1
    returning r.*, s.started_at, s.worker_id, s.lease),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, worker_id, started_at + lease * interval '1 microsecond', greatest(started_at, queued_at), queued_at, run_at, run + 1, attempt + 1, events + 1,
        lane, keep_for_ms, user_id, flow
    from begun),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from begun group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', bucket, n from lateness)
select id, (select set_config('synchronous_commit', 'off', true)) from begun

-- name: begin_refused
-- Adds a line to the log of each job that was started, but changed before the start was recorded: cancelled, replaced, or started by
-- another worker. Not if the start was recorded before and the response was lost.
-- In: the time (or null), ids, scheduled_ats, workers, the beginning of each line. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select s.id, 1, 0, {now}, 'warn',
    s.message || case when r.id is null then j.status else 'processing' end || '), so that this execution does not count'
from unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[]) s (id, scheduled_at, worker_id, message)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = s.scheduled_at and j.id = s.id) j
left join punctual_running r on r.id = s.id
where case when r.id is null then j.run = 0 else r.worker_id <> s.worker_id end
on conflict do nothing
