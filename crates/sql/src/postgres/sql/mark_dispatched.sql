-- The dispatcher has been informed of jobs. In: lanes, times, ids. Index: primary keys.
with u as materialized (select * from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)),
d as (
    update punctual_due d set dispatched = true from u
    where d.run_at = any (array[u.run_at]) and d.id = u.id and not d.dispatched)
update punctual_ready r set dispatched = true from u
where r.lane = any (array[u.lane]) and r.run_at = u.run_at and r.id = u.id and not r.dispatched
