-- Puts a job at its place in the lane of its queue and name.
insert into punctual_ready (queue, name, priority, run_at, job)
select i.queue, i.name, i.priority, i.run_at, i.job
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', run_at bigint '$[3]', job bigint '$[4]') i
