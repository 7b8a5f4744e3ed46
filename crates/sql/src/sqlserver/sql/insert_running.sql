-- A worker takes a job: the lease, and the fence that every settle must pass.
insert into punctual_running (job_id, job, run, attempt, worker_id, lease_until, started_at, priority, queue, name, keep_for_ms, user_id, last_event, flow, limit_key, limit_key_hash)
select cast(cast(i.job_id as uniqueidentifier) as binary(16)), i.job, i.run, i.attempt, cast(cast(i.worker_id as uniqueidentifier) as binary(16)),
    i.lease_until, i.started_at, i.priority, i.queue, i.name, i.keep_for_ms, i.user_id, i.last_event, i.flow, i.limit_key, cast(hashbytes('sha2_256', i.limit_key) as binary(32))
from openjson(@P1) with (
    job_id char(36) '$[0]', job bigint '$[1]', run int '$[2]', attempt int '$[3]', worker_id char(36) '$[4]', lease_until bigint '$[5]',
    started_at bigint '$[6]', priority tinyint '$[7]', queue nvarchar(256) '$[8]', name nvarchar(256) '$[9]', keep_for_ms bigint '$[10]',
    user_id nvarchar(512) '$[11]', last_event bigint '$[12]', flow bit '$[13]', limit_key nvarchar(1024) '$[14]') i
