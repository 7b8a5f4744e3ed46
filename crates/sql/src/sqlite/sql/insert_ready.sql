-- Puts a job at its place in the lane of its queue and name.
insert into punctual_ready (queue, name, priority, run_at, job) values (?1, ?2, ?3, ?4, ?5)
