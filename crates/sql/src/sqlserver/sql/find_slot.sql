-- The slot that an execution in a worker's hands occupies. In: id, run, worker. Index: primary key.
select s.job_id, s.run, s.queue, s.limit_key, s.lease_until, i.place
from openjson(@P1) with (id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', place int '$[3]') i
join punctual_occupied_slots s with (forceseek) on s.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and s.run = i.run and s.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
