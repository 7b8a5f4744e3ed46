-- A finished job is gone, or is not finished any more. Index: the whole primary key.
delete t from punctual_expiries t with (forceseek, rowlock) join openjson(@P1) with (expires_at bigint '$[0]', job bigint '$[1]') i
on t.expires_at = i.expires_at and t.job = i.job
