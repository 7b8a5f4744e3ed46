-- Queued jobs of one lane, longest due first. In: as above, the lane. Index: a range of the primary key.
select r.run_at, r.id, r.lane, 'queued' from punctual_ready r
where r.lane = $5::int4 and (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8
