-- Claimed jobs for their worker, from the partition that they are in. In: ids, and when each is scheduled for.
-- Index: the whole primary key.
select {columns} from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
