-- Stores jobs that wait for others, with their first events. Fails if an id is known.
-- In: the time (or null), then one array a column, for how many each waits, and whether one of the others has failed.
with x as materialized (
    select u.*, {now} as created_at, 'waiting' as status,
        coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, {now})) as run_at
    from {rows}),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow, waiting_on)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null, waiting_on
    from x),
w as (
    insert into punctual_waiting (id, run_at, scheduled_at, since, lane, waiting_on, any_failed)
    select id, run_at, scheduled_at, created_at, lane, waiting_on, any_failed from x),
e as (insert into punctual_events (job_id, n, at, status) select id, 1, created_at, status from x),
{options}c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id from x limit 0
