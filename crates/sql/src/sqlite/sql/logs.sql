-- The log of a job, oldest first. In: seq, how many. Index: primary key.
select run, at, level, message from punctual_logs where job = ?1 order by run, line limit ?2
