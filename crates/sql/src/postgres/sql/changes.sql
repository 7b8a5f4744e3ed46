-- What could not be seen at a look before and can be at this one, in the order of time.
-- In: from when on it may bear its time; when the look before was; when this one is; then for both looks how far transactions had come, and
-- which were open; how many. Out: events, as far as they are stored; that executions began, of those under way; that jobs were queued at first, of
-- those that are as they came. Index: punctual_events_final, one range for each end; a range of the jobs' primary key. What is running is
-- read whole.
with parts as materialized (
    select l.xmin::text::int8 as part, l.began, {new:l} as is_new from punctual_late_commits l where l.written >= $1::timestamptz),
late as materialized (select distinct part, began from parts where is_new),
found as (
    select e.* from unnest('{0, 1, 2, 3}'::int2[]) f (final) cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where e.final = f.final and e.at >= $1::timestamptz and {new:e} and {standing}
            and e.xmin::text::int8 <> all (array(select part from parts))
        order by e.at, e.job_id limit $8::int8) e
    union all
    select e.* from late cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where {any_end} and e.at = late.began and e.xmin::text::int8 = late.part and {standing} limit $8::int8) e
    union all
    -- Only starts: a lease that was extended has an earlier one.
    select r.id, r.events, r.started_at, 'processing', r.run, null, null from punctual_running r
    where r.started_at >= $2::timestamptz - interval '500 milliseconds' and {new:r}
    union all
    select * from (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= $1::timestamptz - interval '1 second' and j.scheduled_at <= $3::timestamptz + interval '1 second'
            and {new:j} and {as_it_came} and j.xmin::text::int8 <> all (array(select part from parts))
        order by j.scheduled_at, j.id limit $8::int8) j
    union all
    select j.* from late cross join lateral (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= late.began - interval '1 second' and j.scheduled_at <= late.began + interval '1 second'
            and j.xmin::text::int8 = late.part and {as_it_came} limit $8::int8) j)
select * from found order by at, job_id, n limit $8::int8
