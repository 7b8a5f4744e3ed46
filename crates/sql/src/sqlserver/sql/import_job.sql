-- A job as another store had it; does nothing if its id is known. Those that come later are older, and stand before the others of their instant.
-- In: a job's columns. Rows changed: 1, or 0 if the id is known. Index: the unique one on id.
declare @before bigint = (select case when not exists (select 1 from punctual_jobs where id = @P1)
    then (select coalesce(min(seq), 1099511627777) - 1 from punctual_jobs) end);
set identity_insert punctual_jobs on;
insert into punctual_jobs (seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms,
    user_id, correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at, finished_at,
    extras, payload, progress, result, error, flow)
select @before, @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12, @P13, @P14, @P15, @P16, @P17, @P18, @P19, @P20, @P21, @P22, @P23,
    @P24, @P25, @P26, @P27, @P28, @P29
where @before is not null;
set identity_insert punctual_jobs off;
select @before where @before is not null
