-- The execution of a job that was cancelled occupies a slot. In: id, run, worker, queue, gate, when its lease ends.
insert into punctual_occupied_slots (job_id, run, worker_id, queue, gate, lease_until, gate_hash)
select cast(cast(i.job_id as uniqueidentifier) as binary(16)), i.run, cast(cast(i.worker_id as uniqueidentifier) as binary(16)), i.queue, i.gate, i.lease_until, cast(hashbytes('sha2_256', i.gate) as binary(32))
from openjson(@P1) with (
    job_id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', queue nvarchar(256) '$[3]', gate nvarchar(1024) '$[4]', lease_until bigint '$[5]') i
where not exists (select 1 from punctual_occupied_slots s with (forceseek) where s.job_id = cast(cast(i.job_id as uniqueidentifier) as binary(16)) and s.run = i.run)
