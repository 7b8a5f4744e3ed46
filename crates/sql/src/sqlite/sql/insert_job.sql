-- Stores a job; does nothing if its id is known.
-- In: a job's columns. Rows changed: 1, or 0 if the id is known. Index: the unique one on id.
insert into punctual_jobs (id, name, queue, status, priority, scheduled_at, run_at, max_attempts, timeout_ms, user_id,
    correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload,
    last_event, waiting_on, flow)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?17, ?18, ?19, ?20, ?21)
on conflict (id) do nothing
