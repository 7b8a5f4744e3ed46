-- Waiting jobs, by the time they may start at the earliest. In: as above. Index: a range of punctual_waiting_time.
select w.run_at, w.id, w.lane, 'waiting' from punctual_waiting w
where (w.run_at, w.id) > ($1::timestamptz, $2::uuid) and w.run_at < $3::timestamptz
order by w.run_at, w.id limit $4::int8
