-- Jobs of a lane that were queued before a time, after a place. In: lane, time, id, how many, before when. Out: time, id.
-- Index: a range of the primary key.
select run_at, id from punctual_ready
where lane = $1::int4 and (run_at, id) > ($2::timestamptz, $3::uuid) and queued_at < $5::timestamptz
order by run_at, id limit $4::int8
