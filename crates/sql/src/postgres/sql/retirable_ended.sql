-- Finished jobs of one status that have been kept long enough, oldest first, but those that say themselves how long they are kept.
-- In: cutoff, how many, not before, before, how they ended. Index: a range of punctual_events_final; then primary keys.
select e.job_id from punctual_events e
cross join lateral (
    select keep_for_ms from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(e.job_id) and j.id = e.job_id limit 1) j
where e.final = $5::int2 and e.at <= $1::timestamptz and e.at >= $3::timestamptz
    and e.at < $4::timestamptz and j.keep_for_ms is null
order by e.at, e.job_id limit $2::int8
