-- A scheduled or retrying job becomes queued. In: job, now, its event. Index: primary key.
update j set status = 'queued', updated_at = i.now, last_event = i.event
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', now bigint '$[1]', event bigint '$[2]') i on j.seq = i.seq
