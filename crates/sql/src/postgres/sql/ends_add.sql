-- Jobs of workflows have come to an end. In: the time (or null), ids, when each is scheduled for, their statuses. Index: the whole primary key.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
select j.workflow_id, {now}, count(*) filter (where u.status = 'succeeded'), count(*) filter (where u.status = 'dead'),
    count(*) filter (where u.status in ('cancelled', 'deleted'))
from unnest($2::uuid[], $3::timestamptz[], $4::text[]) u (id, scheduled_at, status)
cross join lateral (select j.workflow_id from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.workflow_id is not null and exists (select from punctual_nodes n where n.job_id = u.id) group by j.workflow_id
