-- A job as another store had it; does nothing if its id is known. Those that come later are older, and stand before the others of their instant.
-- In: a job's columns. Rows changed: 1, or 0 if the id is known. Index: the unique one on id.
insert into punctual_jobs (seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms,
    user_id, correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at, finished_at,
    options, payload, progress, result, error, flow)
values ((select coalesce(min(seq), 1099511627777) - 1 from punctual_jobs), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
    ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
on conflict (id) do nothing
