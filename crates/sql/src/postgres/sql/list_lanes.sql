-- The same for the jobs of some lanes. In: as above, the lanes. Index: a range of punctual_jobs_lane for each, backwards.
select j.scheduled_at, j.id, j.lane, null::text
from unnest($5::int4[]) u (lane)
cross join lateral (
    select * from punctual_jobs j
    where j.lane = u.lane and j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid)
        and j.scheduled_at >= $3::timestamptz
    order by j.scheduled_at desc, j.id desc limit $4::int8) j
order by j.scheduled_at desc, j.id desc limit $4::int8
