-- Holds jobs, in the order of ids. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id for update) j
