-- Removes old log lines among those of the oldest jobs. In: cutoff, how many to look at. Index: primary key.
delete from punctual_logs where (job, run, line) in (
    select job, run, line from (select job, run, line, at from punctual_logs order by job, run, line limit ?2)
    where at <= ?1)
