-- Puts a job at its place in the lane of its queue and name.
insert into punctual_ready (queue, name, priority, run_at, job) values (@P1, @P2, @P3, @P4, @P5)
