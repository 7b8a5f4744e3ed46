-- Finished jobs of one status, last ended first. In: before which (at, id), not before which at, how many, how they ended.
-- Index: a range of punctual_events_final, backwards.
select e.at, e.job_id, e.lane, e.status from punctual_events e
where e.final = $5::int2 and e.at <= $1::timestamptz and (e.at, e.job_id) < ($1::timestamptz, $2::uuid)
    and e.at >= $3::timestamptz
order by e.at desc, e.job_id desc limit $4::int8
