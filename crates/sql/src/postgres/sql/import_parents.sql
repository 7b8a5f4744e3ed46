-- Something follows from the ends of jobs that have come from another store. In: ids, when each is scheduled for. Index: primary keys.
with u as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
j as (
    update punctual_jobs j set flow = true from u where j.scheduled_at = u.scheduled_at and j.id = u.id
    returning j.id, j.lane, j.run_at),
r as (update punctual_ready r set flow = true from j where r.lane = j.lane and r.run_at = j.run_at and r.id = j.id)
update punctual_running r set flow = true from j where r.id = j.id
