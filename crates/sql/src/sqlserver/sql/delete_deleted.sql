-- A deleted job is purged. Index: the whole primary key.
delete t from punctual_deleted t with (forceseek, rowlock) join openjson(@P1) with (deleted_at bigint '$[0]', job bigint '$[1]') i
on t.deleted_at = i.deleted_at and t.job = i.job
