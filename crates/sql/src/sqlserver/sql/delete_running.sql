-- A worker holds a job no longer. In: id, run, worker, whether something is known to follow from its end.
-- Rows changed: 1 if it did. Index: primary key.
delete t from punctual_running t with (forceseek, rowlock) join openjson(@P1) with (job_id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', flow bit '$[3]') i
on t.job_id = cast(cast(i.job_id as uniqueidentifier) as binary(16)) and t.run = i.run and t.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
    and t.flow = i.flow
