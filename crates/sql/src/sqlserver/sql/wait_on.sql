-- A job waits for fewer parents. In: job, for how many. Index: primary key.
update j set waiting_on = i.waiting_on from punctual_jobs j with (forceseek, rowlock)
join openjson(@P1) with (seq bigint '$[0]', waiting_on int '$[1]') i on j.seq = i.seq
