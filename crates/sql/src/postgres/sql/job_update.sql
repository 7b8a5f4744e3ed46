-- Another enqueue changes a job, whose place is held. In: the time (or null), id, when it is scheduled for, payload (or null), run_at (or null), when it
-- last changed, why. Index: primary keys, punctual_waiting's primary key.
with j as (
    update punctual_jobs j set payload = coalesce($4::text, j.payload), run_at = coalesce($5::timestamptz, j.run_at), updated_at = {now},
        events = j.events + 1
    where j.scheduled_at = $3::timestamptz and j.id = $2::uuid
    returning j.id, j.lane, j.run_at, j.status, j.events),
r as (
    update punctual_ready r set payload = null, dispatched = false, queued_at = {now}, events = j.events
    from j where r.lane = j.lane and r.run_at = j.run_at and r.id = j.id and j.status = 'queued'),
d as (
    update punctual_due d set run_at = j.run_at, since = {now}, dispatched = false
    from j where d.run_at = $8::timestamptz and d.id = j.id and j.status in ('scheduled', 'retrying')),
w as (update punctual_waiting w set since = {now} from j where w.id = j.id)
insert into punctual_events (job_id, n, at, previous_at, status, detail)
select id, events, {now}, $6::timestamptz, status, $7::text from j
