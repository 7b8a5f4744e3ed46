-- Writes back what an operator's action may change. Index: primary key.
update j set status = i.status, run_at = i.run_at, attempt = i.attempt, run = i.run, max_attempts = i.max_attempts, updated_at = i.updated_at,
    started_at = i.started_at, finished_at = i.finished_at, last_event = i.last_event, waiting_on = i.waiting_on
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', attempt int '$[3]', run int '$[4]', max_attempts int '$[5]',
    updated_at bigint '$[6]', started_at bigint '$[7]', finished_at bigint '$[8]', last_event bigint '$[9]', waiting_on int '$[10]') i
on j.seq = i.seq
