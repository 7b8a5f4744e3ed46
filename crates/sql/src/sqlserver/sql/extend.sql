-- Keeps leases that have not run out. In: id, run, worker, now, until. Out: a row if it was kept. Index: primary key.
update r set lease_until = case when r.lease_until > i.until then r.lease_until else i.until end
output i.place
from punctual_running r with (rowlock)
join openjson(@P1) with (id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', until bigint '$[4]', place int '$[5]') i
on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run
    and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16)) and r.lease_until > i.now
