-- The part of settle.sql for executions that are not the end of their job at once: it runs again, or ends with a second event.
e2 as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, {now}, {now}, lane, run, {final}, {l.second} from l where {l.second} is not null),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, {now}), id, {now}, lane, attempt - {l.gives_back}::int4, run,
        events + 1 + ({l.second} is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from l where {l.status} = 'queued'),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select {now} + {l.delay} * interval '1 microsecond', id, scheduled_at, {now}, lane, {l.status}
    from l where {l.status} in ('scheduled', 'retrying')),
