-- Who holds jobs; nobody ends that meanwhile. In: id. Index: primary key.
select r.job, r.run, r.attempt, r.worker_id, r.lease_until, r.started_at, r.priority, r.queue, r.name, r.keep_for_ms, r.user_id,
    r.last_event, r.flow, r.limit_key, i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_running r with (forceseek, updlock, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16))
