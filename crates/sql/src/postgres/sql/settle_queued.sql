-- The executions that settle.sql ends, if nothing is recorded of them yet: they were the first of jobs that are as they were when they came.
-- In besides: lanes, times, when each began.
    delete from punctual_ready r
    using unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[])
        as s (id, scheduled_at, run, result, lane, run_at, started_at)
    -- The lane not by plain equality, for the same reason as in begin.sql.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id
        and r.run = 0 and r.events = 1 and not r.flow
    returning r.id, s.scheduled_at, s.run, r.attempt + 1 as attempt, $6::uuid as worker_id, greatest(s.started_at, r.queued_at) as started_at, r.queued_at, r.events + 1 as events,
        r.lane, r.keep_for_ms, r.user_id, r.flow, null::text as limit_key, s.result, r.run_at
