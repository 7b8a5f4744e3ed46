-- Puts a job at its place among the queued ones of its key. In: queue, key, name, priority, run_at, job.
insert into punctual_keyed (queue, [key], name, priority, run_at, job, hash)
select i.queue, i.[key], i.name, i.priority, i.run_at, i.job, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (
    queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', priority tinyint '$[3]', run_at bigint '$[4]',
    job bigint '$[5]') i
