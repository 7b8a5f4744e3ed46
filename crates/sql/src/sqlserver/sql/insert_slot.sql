-- The execution of a job that was cancelled occupies a slot. In: id, run, worker, queue, limit_key, when its lease ends.
insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until, limit_key_hash)
select cast(cast(i.job_id as uniqueidentifier) as binary(16)), i.run, cast(cast(i.worker_id as uniqueidentifier) as binary(16)), i.queue, i.limit_key, i.lease_until, cast(hashbytes('sha2_256', i.limit_key) as binary(32))
from openjson(@P1) with (
    job_id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', queue nvarchar(256) '$[3]', limit_key nvarchar(1024) '$[4]', lease_until bigint '$[5]') i
where not exists (select 1 from punctual_occupied_slots s with (forceseek) where s.job_id = cast(cast(i.job_id as uniqueidentifier) as binary(16)) and s.run = i.run)
