-- Records that handlers are about to start, if their leases have not run out. In: id, run, worker, now. Out: a row if it was held.
-- Index: primary key.
update r set confirmed = 1
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', place int '$[4]') i
join punctual_running r with (forceseek, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now;
select i.place
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', place int '$[4]') i
join punctual_running r with (forceseek) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now and r.confirmed = 1
