-- Removes a job. In: seq. Index: primary key.
delete t from punctual_jobs t with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]') i
on t.seq = i.seq
