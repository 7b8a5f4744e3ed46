-- Records that handlers are about to start, if their leases have not run out. In: the time (or null), ids, runs, the worker.
-- Out: the ids and runs that are held. Durable when it returns. Locks rows in the order of ids, as settles do. Index: primary key.
with held as materialized (
    select r.ctid as place from unnest($2::uuid[], $3::int4[]) wanted (id, run)
    cross join lateral (
        select r.ctid from punctual_running r
        where r.id = wanted.id and r.run = wanted.run and r.worker_id = $4::uuid and r.lease_until > {now} for update) r)
update punctual_running r set confirmed = true where r.ctid = any (array(select place from held)) returning r.id, r.run
