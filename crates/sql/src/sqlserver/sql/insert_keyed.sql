-- Puts a job at its place among the queued ones of its key. In: queue, key, name, priority, run_at, job.
insert into punctual_keyed (queue, [key], name, priority, run_at, job) values (@P1, @P2, @P3, @P4, @P5, @P6)
