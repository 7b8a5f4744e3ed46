-- Puts a job at its place among the queued ones of its key. In: queue, key, name, priority, run_at, job.
insert into punctual_keyed (queue, key, name, priority, run_at, job) values (?1, ?2, ?3, ?4, ?5, ?6)
