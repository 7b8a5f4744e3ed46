-- A scheduled or retrying job becomes queued. In: job, now, its event. Index: primary key.
update punctual_jobs set status = 'queued', updated_at = @P2, last_event = @P3 where seq = @P1
