-- The keys that have something to start of a queue and name, in the order of their first jobs.
-- In: queue, name, how many, from and up to which level. Out: key. Index: a range of the primary key, no sort.
select h.[key], i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', many int '$[2]', first tinyint '$[3]', last tinyint '$[4]', place int '$[5]') i
cross apply (select top (i.many) * from punctual_limit_heads t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.name = i.name collate Latin1_General_BIN2
        and t.priority between i.first and i.last
    order by t.priority desc, t.turn, t.run_at, t.job) h
order by i.place, h.priority desc, h.turn, h.run_at, h.job
