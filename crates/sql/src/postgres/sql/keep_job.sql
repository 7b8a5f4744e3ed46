-- Says how long a finished job is kept.
-- In: the job, the time it is scheduled for, milliseconds after its end as they were (or null) and as they are. Index: primary keys.
with j as (
    update punctual_jobs set keep_for_ms = $4::int8 where scheduled_at = $2::timestamptz and id = $1::uuid returning id, finished_at),
k as (delete from punctual_expiries k using j where k.expires_at = j.finished_at + $3::int8 * interval '1 millisecond' and k.id = j.id)
insert into punctual_expiries (expires_at, id) select finished_at + $4::int8 * interval '1 millisecond', id from j
