-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, {now} as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, {now})) as run_at
          from {rows}) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x {passing}),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, {key}, case when octet_length(payload) <= {inline} then payload end, {dispatched}
    from {new} where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from {new} where status <> 'queued' or not ({fresh})),
{options}c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from {new} group by lane, status)
select id, created_at from {answer}
