-- Stores a job; does nothing if its id is known.
-- In: a job's columns. Rows changed: 1, or 0 if the id is known. Index: the unique one on id.
insert into punctual_jobs (id, name, queue, status, priority, scheduled_at, run_at, max_attempts, timeout_ms, user_id,
    correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, extras, payload,
    last_event, waiting_on, flow)
output inserted.seq
select @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12, @P13, @P14, @P15, @P16, @P16, @P17, @P18, @P19, @P20, @P21
where not exists (select 1 from punctual_jobs where id = @P1)
