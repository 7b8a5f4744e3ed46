-- Held jobs, longest due first. In: as above. Reads and sorts the whole table, which is as small as the fleet's concurrency.
select r.run_at, r.id, r.lane, 'processing' from punctual_running r
where (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8
