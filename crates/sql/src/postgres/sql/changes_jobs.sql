-- What those select jobs by who follow them. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
