-- A job has waited for its parents. In: job, its status, when it may start, now, its event. Index: primary key.
update j set status = i.status, run_at = i.run_at, updated_at = i.now, last_event = i.event, waiting_on = 0
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', now bigint '$[3]', event bigint '$[4]') i
on j.seq = i.seq
