-- A key has something to start. In: queue, name, priority, turn, run_at, job, key.
insert into punctual_limit_heads (queue, name, priority, turn, run_at, job, [key], hash)
select i.queue, i.name, i.priority, i.turn, i.run_at, i.job, i.[key], cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (
    queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', turn bigint '$[3]', run_at bigint '$[4]', job bigint '$[5]',
    [key] nvarchar(1024) '$[6]') i
