-- Keeps leases that have not run out. In: id, run, worker, now, until. Out: a row if it was kept. Index: primary key.
update r set lease_until = i.until
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', until bigint '$[4]', place int '$[5]') i
join punctual_running r with (forceseek, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now and r.lease_until < i.until;
select i.place
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', until bigint '$[4]', place int '$[5]') i
join punctual_running r with (forceseek) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until >= i.until
