-- Another enqueue changes a job. In: job, payload (or null), run_at, now, its event. Index: primary key.
update punctual_jobs set payload = coalesce(cast(@P2 as nvarchar(max)), payload), run_at = @P3, updated_at = @P4, last_event = @P5 where seq = @P1
