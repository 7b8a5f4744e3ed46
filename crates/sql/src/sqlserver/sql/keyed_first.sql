-- The first jobs of a key and name, in the order in which they start.
-- In: queue, key, name, how many, from and up to which level. Out: level, run_at, job. Index: a range of the primary key, no sort.
select k.priority, k.run_at, k.job, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', many int '$[3]', first tinyint '$[4]', last tinyint '$[5]', place int '$[6]') i
cross apply (select top (i.many) priority, run_at, job from punctual_keyed t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name = i.name collate Latin1_General_BIN2
        and t.priority between i.first and i.last
    order by t.priority desc, t.run_at, t.job) k
order by i.place, k.priority desc, k.run_at, k.job
