-- Something follows from a job's end. In: job. Index: primary key.
update j set flow = 1 from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]') i on j.seq = i.seq where j.flow = 0
