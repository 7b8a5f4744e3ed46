-- Says how long a finished job is kept. In: job, milliseconds after its end. Index: primary key.
update j set keep_for_ms = i.keep_for_ms
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', keep_for_ms bigint '$[1]') i
on j.seq = i.seq
