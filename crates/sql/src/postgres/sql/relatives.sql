-- What a workflow or a relative tells of jobs. In: ids, when each is scheduled for. Out: id, name, node, status.
-- Index: the whole primary key, then that of what is running.
select j.id, j.name, j.options::json ->> 'node', case when r.id is null then j.status else 'processing' end
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id
