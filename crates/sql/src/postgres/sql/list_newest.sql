-- Jobs by the time they are scheduled for, latest first: when, which, its lane, its status if that is known from here.
-- In: before which (scheduled_at, id), not before which scheduled_at, how many. Index: primary keys of the partitions, backwards.
select j.scheduled_at, j.id, j.lane, null::text from punctual_jobs j
where j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid) and j.scheduled_at >= $3::timestamptz
order by j.scheduled_at desc, j.id desc limit $4::int8
