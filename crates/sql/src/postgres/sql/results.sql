-- What jobs returned. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id, j.result from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id, j.result from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.result is not null
