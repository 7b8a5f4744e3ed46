-- Scheduled and retrying jobs, next first. In: after which (run_at, id), before which run_at, how many.
-- Index: a range of the primary key.
select d.run_at, d.id, d.lane, d.status from punctual_due d
where (d.run_at, d.id) > ($1::timestamptz, $2::uuid) and d.run_at < $3::timestamptz
order by d.run_at, d.id limit $4::int8
