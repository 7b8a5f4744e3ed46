-- Removes the log of a job. In: seq. Index: primary key.
delete t from punctual_logs t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job
