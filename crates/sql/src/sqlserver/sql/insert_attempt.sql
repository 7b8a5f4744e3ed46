-- An execution has ended.
insert into punctual_attempts (job, run, attempt, status, worker_id, started_at, finished_at, error)
select i.job, i.run, i.attempt, i.status, cast(cast(i.worker_id as uniqueidentifier) as binary(16)), i.started_at, i.finished_at, i.error
from openjson(@P1) with (
    job bigint '$[0]', run int '$[1]', attempt int '$[2]', status varchar(16) '$[3]', worker_id char(36) '$[4]', started_at bigint '$[5]',
    finished_at bigint '$[6]', error nvarchar(max) '$[7]') i
