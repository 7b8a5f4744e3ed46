-- Keeps leases that have not run out. In: the time (or null), ids, runs, the worker, the lease. Out: the ids that are held.
-- An execution that is being settled at this moment, perhaps in a handler's own long transaction, is held, and not waited for.
-- Index: primary key.
with u as materialized (select * from unnest($2::uuid[], $3::int4[]) u (id, run)),
c as materialized (
    select u.id, r.place, r.lease_until from u cross join lateral (
        select r.ctid as place, r.lease_until from punctual_running r
        where r.id = u.id and r.run = u.run and r.worker_id = $4::uuid for update skip locked) r),
x as (
    update punctual_running r set lease_until = greatest(r.lease_until, {now} + $5::int8 * interval '1 microsecond')
    where r.ctid = any (array(select place from c where lease_until > {now})))
select u.id, u.run, (select set_config('synchronous_commit', 'off', true)) from u
cross join lateral (
    select * from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = $4::uuid limit 1) r
where r.lease_until > {now} or u.id <> all (array(select id from c))
