-- Something follows from the ends of jobs, whose places are held. In: ids, when each is scheduled for, lanes, run_ats. Index: primary keys.
with u as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::timestamptz[]) u (id, scheduled_at, lane, run_at)),
j as (update punctual_jobs j set flow = true from u where j.scheduled_at = u.scheduled_at and j.id = u.id and not j.flow),
r as (update punctual_ready r set flow = true from u where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id and not r.flow)
update punctual_running r set flow = true from u where r.id = any (array[u.id]) and not r.flow
