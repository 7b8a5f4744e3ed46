-- name: enqueue_text
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, {now} as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, {now})) as run_at
          from {rows}) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs {passing}),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, {key}, case when octet_length(payload) <= {inline} then payload end, {dispatched}
    from {new} where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from {new} where status <> 'queued' or not ({fresh})),
{options}counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from {new} group by lane, status)
select id, created_at from {answer}

-- name: enqueue_rows
-- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)

-- name: enqueue_rows_alike
-- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u

-- name: enqueue_options
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, {due_dispatched} from {new} where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from {new} where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from {new} where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from {new}, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from {new}
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, {key} from {new} where status = 'queued' and {key} is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from {new} where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from {new} where user_id is not null group by user_id, name),

-- name: enqueue_waiting_text
-- Stores jobs that wait for other jobs, with their first events. Fails if an id exists.
-- In: the time (or null), then one array per column, the number of parents that each waits for, and whether another parent has failed.
with new_jobs as materialized (
    select u.*, {now} as created_at, 'waiting' as status,
        coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, {now})) as run_at
    from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
            $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[], $19::int4[], $20::bool[])
            as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
                  correlation_id, workflow_id, keep_for_ms, ephemeral, lane, waiting_on, any_failed)),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow, waiting_on)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null, waiting_on
    from new_jobs),
waiting as (
    insert into punctual_waiting (id, run_at, scheduled_at, since, lane, waiting_on, any_failed)
    select id, run_at, scheduled_at, created_at, lane, waiting_on, any_failed from new_jobs),
first_events as (insert into punctual_events (job_id, n, at, status) select id, 1, created_at, status from new_jobs),
{options}counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id from new_jobs limit 0
