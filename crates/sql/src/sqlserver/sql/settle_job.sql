-- A job comes to rest after an execution. Index: primary key.
-- A result or an error that is absent leaves the former one.
update j set status = i.status, run_at = coalesce(i.run_at, j.run_at), attempt = i.attempt, run = i.run, crash_count = j.crash_count + i.crashes,
    updated_at = i.now, started_at = i.started_at, finished_at = i.finished_at, result = coalesce(i.result, j.result), error = coalesce(i.error, j.error),
    last_event = i.last_event
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', attempt int '$[3]', run int '$[4]', crashes int '$[5]',
    now bigint '$[6]', started_at bigint '$[7]', finished_at bigint '$[8]', result nvarchar(max) '$[9]', error nvarchar(max) '$[10]',
    last_event bigint '$[11]') i
on j.seq = i.seq
