-- An execution has ended.
insert into punctual_attempts (job, run, attempt, status, worker_id, started_at, finished_at, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
