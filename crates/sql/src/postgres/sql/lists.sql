-- name: list_details
-- The columns that lists filter by. In: ids, scheduled_ats. Index: the whole primary key, then that of punctual_running.
select j.id, case when r.id is null then j.status else 'processing' end, j.queue, j.name, j.user_id, j.correlation_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id

-- name: list_newest
-- Jobs by scheduled_at, latest first. In: the (scheduled_at, id) to start before, the least scheduled_at, the limit.
-- Out: scheduled_at, id, lane, status (or null if it is not known here). Index: primary keys of the partitions, backwards.
select j.scheduled_at, j.id, j.lane, null::text from punctual_jobs j
where j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid) and j.scheduled_at >= $3::timestamptz
order by j.scheduled_at desc, j.id desc limit $4::int8

-- name: list_lanes
-- The same for the jobs of some lanes. In: as above, the lanes. Index: a range of punctual_jobs_lane for each, backwards.
select j.scheduled_at, j.id, j.lane, null::text
from unnest($5::int4[]) u (lane)
cross join lateral (
    select * from punctual_jobs j
    where j.lane = u.lane and j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid)
        and j.scheduled_at >= $3::timestamptz
    order by j.scheduled_at desc, j.id desc limit $4::int8) j
order by j.scheduled_at desc, j.id desc limit $4::int8

-- name: list_lane
-- Queued jobs of one lane, earliest run_at first. In: as list_due, the lane. Index: a range of the primary key.
select r.run_at, r.id, r.lane, 'queued' from punctual_ready r
where r.lane = $5::int4 and (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8

-- name: list_label
-- As list_newest, for one user, correlation id or tag. In: as list_newest, kind, value. Index: primary key, backwards.
select l.scheduled_at, l.id, null::int4, null::text from punctual_labels l
where l.kind = $5::text and l.value = $6::text and l.scheduled_at <= $1::timestamptz
    and (l.scheduled_at, l.id) < ($1::timestamptz, $2::uuid) and l.scheduled_at >= $3::timestamptz
order by l.scheduled_at desc, l.id desc limit $4::int8

-- name: list_ended
-- Finished jobs of one status, last ended first. In: the (at, id) to start before, the least at, the limit, the number of the status.
-- Index: a range of punctual_events_final, backwards.
select e.at, e.job_id, e.lane, e.status from punctual_events e
where e.final = $5::int2 and e.at <= $1::timestamptz and (e.at, e.job_id) < ($1::timestamptz, $2::uuid)
    and e.at >= $3::timestamptz
order by e.at desc, e.job_id desc limit $4::int8

-- name: list_deleted
-- Deleted jobs, last ended first. In: the (finished_at, id) to start before, the least finished_at, the limit.
-- Index: a range of punctual_deleted_finished, backwards.
select d.finished_at, d.id, null::int4, 'deleted' from punctual_deleted d
where (d.finished_at, d.id) < ($1::timestamptz, $2::uuid) and d.finished_at >= $3::timestamptz
order by d.finished_at desc, d.id desc limit $4::int8

-- name: list_due
-- Scheduled and retrying jobs, earliest run_at first. In: the (run_at, id) to start after, the run_at to end before, the limit.
-- Index: a range of the primary key.
select d.run_at, d.id, d.lane, d.status from punctual_due d
where (d.run_at, d.id) > ($1::timestamptz, $2::uuid) and d.run_at < $3::timestamptz
order by d.run_at, d.id limit $4::int8

-- name: list_running
-- Running jobs, earliest run_at first. In: as above. Reads and sorts the whole table, which is as small as the fleet's concurrency.
select r.run_at, r.id, r.lane, 'processing' from punctual_running r
where (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8

-- name: list_waiting
-- Waiting jobs, earliest possible start first. In: as above. Index: a range of punctual_waiting_time.
select w.run_at, w.id, w.lane, 'waiting' from punctual_waiting w
where (w.run_at, w.id) > ($1::timestamptz, $2::uuid) and w.run_at < $3::timestamptz
order by w.run_at, w.id limit $4::int8
