-- A dead job is retried or gone. Index: the whole primary key.
delete t from punctual_dead t with (forceseek, rowlock) join openjson(@P1) with (died_at bigint '$[0]', job bigint '$[1]') i
on t.died_at = i.died_at and t.job = i.job
