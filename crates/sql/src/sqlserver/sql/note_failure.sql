-- A parent of a waiting job has failed. In: job. Index: primary key, primary key.
update w set any_failed = 1 from openjson(@P1) with (job bigint '$[0]') i
join punctual_jobs j with (forceseek) on j.seq = i.job join punctual_waiting w with (forceseek, rowlock) on w.run_at = j.run_at and w.job = j.seq
