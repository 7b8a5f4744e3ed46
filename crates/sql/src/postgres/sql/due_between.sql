-- Jobs that wait for their time, from a place to a time. In: time, id, until when, how many, of which lanes. Out: lane, time, id. Index: a range of the primary key.
select lane, run_at, id from punctual_due where (run_at, id) > ($1::timestamptz, $2::uuid) and run_at <= $3::timestamptz and lane = any ($5::int4[])
order by run_at, id limit $4::int8
