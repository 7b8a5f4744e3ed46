-- The heads of lanes, in the order in which they are claimed. What somebody is taking is left out.
-- In: queue, name, how many, from and up to which level (a priority; of suspects 16 more). Out: level, run_at, job. Index: a range of the primary key for each, no sort.
-- Queued jobs are due by definition, so run_at is not compared with a clock that may have been set back.
select r.priority, r.run_at, r.job, i.place
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', many int '$[2]', first tinyint '$[3]', last tinyint '$[4]', place int '$[5]') i
cross apply (
    select top (i.many) * from punctual_ready with (forceseek, updlock, readpast, rowlock)
    where queue = i.queue collate Latin1_General_BIN2 and name = i.name collate Latin1_General_BIN2
        and priority between i.first and i.last
    order by priority desc, run_at, job) r
order by i.place, r.priority desc, r.run_at, r.job
