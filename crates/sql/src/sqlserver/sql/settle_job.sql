-- A job comes to rest after an execution. Index: primary key.
-- A result or an error that is absent leaves the former one.
update punctual_jobs set status = @P2, run_at = coalesce(@P3, run_at), attempt = @P4, run = @P5,
    crash_count = crash_count + @P6, updated_at = @P7, started_at = @P8, finished_at = @P9,
    result = coalesce(cast(@P10 as nvarchar(max)), result), error = coalesce(cast(@P11 as nvarchar(max)), error), last_event = @P12
where seq = @P1
