-- Lets a job wait no longer. Rows changed: 1 if it did. Index: the whole primary key.
delete t from punctual_due t with (forceseek, rowlock) join openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i
on t.run_at = i.run_at and t.job = i.job
