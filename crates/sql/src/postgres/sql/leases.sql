-- name: extend_leases
-- Extends leases that have not expired. In: the time (or null), ids, runs, the worker, the lease in microseconds. Out: the ids and runs
-- that are held. An execution that is being settled, perhaps in a handler's own long transaction, counts as held, and its lock is not
-- waited for. Index: primary key.
with given as materialized (select * from unnest($2::uuid[], $3::int4[]) u (id, run)),
held as materialized (
    select given.id, r.place, r.lease_until from given cross join lateral (
        select r.ctid as place, r.lease_until from punctual_running r
        where r.id = given.id and r.run = given.run and r.worker_id = $4::uuid for update skip locked) r),
updated_running as (
    update punctual_running r set lease_until = greatest(r.lease_until, {now} + $5::int8 * interval '1 microsecond')
    where r.ctid = any (array(select place from held where lease_until > {now})))
select given.id, given.run, (select set_config('synchronous_commit', 'off', true)) from given
cross join lateral (
    select * from punctual_running r where r.id = given.id and r.run = given.run and r.worker_id = $4::uuid limit 1) r
where r.lease_until > {now} or given.id <> all (array(select id from held))

-- name: confirm
-- Records that handlers are about to start, if their leases have not expired. In: the time (or null), ids, runs, the worker.
-- Out: the ids and runs that are held. Durable when it returns. Locks rows in the order of ids, as settles do. Index: primary key.
with held as materialized (
    select r.ctid as place from unnest($2::uuid[], $3::int4[]) wanted (id, run)
    cross join lateral (
        select r.ctid from punctual_running r
        where r.id = wanted.id and r.run = wanted.run and r.worker_id = $4::uuid and r.lease_until > {now} for update) r)
update punctual_running r set confirmed = true where r.ctid = any (array(select place from held)) returning r.id, r.run

-- name: held_leases
-- Which executions a worker holds. In: ids, the worker. Out: id, run. Index: primary key.
select r.id, r.run from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id limit 1) r where r.worker_id = $2::uuid

-- name: expired_leases
-- Executions whose lease has expired, earliest first, except those that are being settled.
-- In: the time (or null), the limit, the time before which no lease is expected to end. Out: id, whether its worker has confirmed that its
-- handler is about to start, run, worker. Index: punctual_running_lease.
select id, confirmed, run, worker_id from punctual_running where lease_until <= {now} and lease_until >= $3::timestamptz order by lease_until, id limit $2::int8 for update skip locked

-- name: leases_of
-- The executions that a worker holds. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, the limit. Out: id, whether its worker has confirmed that its handler is about to start, run, worker.
select id, confirmed, run, worker_id from punctual_running where worker_id = $1::uuid order by id limit $2::int8

-- name: end_leases
-- Ends the leases of a worker now, except those of executions that are being settled. In: the time (or null), the worker. Rows changed: the
-- count. Reads the whole table, which is as small as the fleet's concurrency.
update punctual_running r set lease_until = {now} where r.ctid = any (array(
    select ctid from punctual_running where worker_id = $2::uuid and lease_until > {now} for update skip locked))

-- name: suspects_lanes
-- Adds the lanes of suspects for the lanes of running jobs, if they are missing. In: ids. Out: one row for each new lane. Index: primary
-- keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct l.queue, l.name, l.priority + 16, l.keyed from punctual_running r join punctual_lanes l on l.lane = r.lane
where r.id = any ($1::uuid[]) and l.priority < 16
order by 1, 2, 3, 4
on conflict do nothing
returning lane

-- name: suspects_move
-- Moves jobs whose workers were lost to the lanes of suspects, with their rows and counts. In: ids, scheduled_ats.
-- Index: primary keys.
with updated_jobs as (
    update punctual_jobs j set lane = suspects.lane
    from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at), punctual_lanes former, punctual_lanes suspects
    where j.scheduled_at = u.scheduled_at and j.id = u.id and former.lane = j.lane and former.priority < 16
        and suspects.queue = former.queue and suspects.name = former.name and suspects.priority = former.priority + 16
        and suspects.keyed = former.keyed
    returning j.id, j.run_at, j.status, former.lane as former, suspects.lane),
ready as (
    update punctual_ready r set lane = updated_jobs.lane from updated_jobs where r.lane = updated_jobs.former and r.run_at = updated_jobs.run_at and r.id = updated_jobs.id),
due as (
    update punctual_due d set lane = updated_jobs.lane from updated_jobs where d.run_at = updated_jobs.run_at and d.id = updated_jobs.id)
insert into punctual_counts_new (lane, status, n)
select former, status, -count(*) from updated_jobs group by former, status
union all
select lane, status, count(*) from updated_jobs group by lane, status
