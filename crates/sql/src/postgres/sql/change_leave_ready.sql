-- Takes a job out of its lane. In: lane, run_at, id. Rows changed: 1 if it was there. Index: the whole primary key.
delete from punctual_ready where lane = $1::int4 and run_at = $2::timestamptz and id = $3::uuid
