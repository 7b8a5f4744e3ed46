-- name: dispatch
-- The state of the dispatcher. Out: the remaining time of its lease in microseconds, negative after its end; the time up to which it knows
-- due jobs; the id of this store; the microseconds since a process could last not reach it (or null); the start time of the server in
-- microseconds.
select (date_part('epoch', greatest(until, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8, due_until, store_id,
    (date_part('epoch', clock_timestamp() - unreachable_at) * 1000000)::int8, (date_part('epoch', pg_postmaster_start_time()) * 1000000)::int8
from punctual_dispatch

-- name: dispatch_queues
-- The queues assigned to the dispatcher. Out: queue, epoch, the microseconds until the queue may be opened, the microseconds since it was
-- opened (or null), whether all of its jobs are loaded.
select queue, epoch, (date_part('epoch', greatest(opens_at, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8,
    (date_part('epoch', clock_timestamp() - opened_at) * 1000000)::int8, loaded
from punctual_dispatch_queues

-- name: dispatch_unreachable
-- Records that a process that claims jobs cannot reach the dispatcher.
update punctual_dispatch set unreachable_at = clock_timestamp()

-- name: dispatch_extend
-- Extends the lease of the dispatcher. In: the lease in microseconds; if the lease had expired, for how many microseconds after its end the
-- last dispatched jobs may be unknown here; whether the caller claims jobs; for how many microseconds after such a caller could not reach
-- the dispatcher other callers do not extend the lease. Out: whether the lease had expired; no row if it was not extended.
with state as materialized (
    select d.until < clock_timestamp() as lapsed from punctual_dispatch d
    where $3::bool or coalesce(d.unreachable_at < clock_timestamp() - $4::int8 * interval '1 microsecond', true) for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when state.lapsed then d.until + $2::int8 * interval '1 microsecond' else d.opens_at end
from state returning state.lapsed

-- name: dispatch_give
-- Assigns a queue to the dispatcher: for the first time, or again if its epoch is still the given one.
-- In: queue, epoch, for how many microseconds none of its jobs is dispatched if it is assigned again.
with inserted_dispatch_queues as (
    insert into punctual_dispatch_queues as q (queue, epoch, opens_at)
    select $1::text, 1, greatest(clock_timestamp(), d.opens_at) from punctual_dispatch d
    on conflict (queue) do update set epoch = q.epoch + 1, opened_at = null, loaded = false,
        opens_at = clock_timestamp() + $3::int8 * interval '1 microsecond'
    where q.epoch = $2::int8
    returning 1)
update punctual_dispatch set due_until = null where exists (select from inserted_dispatch_queues)

-- name: dispatch_give_all
-- Assigns every queue to the dispatcher again.
with updated_dispatch_queues as (
    update punctual_dispatch_queues set epoch = epoch + 1, opens_at = d.opens_at, opened_at = null, loaded = false from punctual_dispatch d)
update punctual_dispatch set due_until = null

-- name: dispatch_open
-- Opens a queue, unless another process has opened it in this epoch. In: queue, epoch. Rows changed: 1 if this call opened it.
update punctual_dispatch_queues set opened_at = clock_timestamp()
where queue = $1::text and epoch = $2::int8 and opened_at is null and opens_at <= clock_timestamp()

-- name: dispatch_opened
-- Records that the dispatcher knows all jobs of a queue. In: queue, epoch.
update punctual_dispatch_queues set loaded = true where queue = $1::text and epoch = $2::int8

-- name: dispatch_due
-- Records the time up to which the dispatcher knows due jobs. In: the time recorded so far (or null), the new one.
update punctual_dispatch set due_until = $2::timestamptz where due_until is not distinct from $1::timestamptz

-- name: queued_in_lane
-- Jobs of a lane after a position that were queued before a time. In: lane, run_at and id of the position, the limit, the time. Out:
-- run_at, id. Index: a range of the primary key.
select run_at, id from punctual_ready
where lane = $1::int4 and (run_at, id) > ($2::timestamptz, $3::uuid) and queued_at < $5::timestamptz
order by run_at, id limit $4::int8

-- name: due_between
-- Scheduled and retrying jobs after a position, up to a time. In: run_at and id of the position, the time, the limit, the lanes. Out: lane,
-- run_at, id. Index: a range of the primary key.
select lane, run_at, id from punctual_due where (run_at, id) > ($1::timestamptz, $2::uuid) and run_at <= $3::timestamptz and lane = any ($5::int4[])
order by run_at, id limit $4::int8

-- name: stand_in_places
-- Whether a job exists at each of the given positions, in their order. In: lanes, run_ats, ids. Index: primary keys.
select exists (select from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id)
    or exists (select from punctual_due d where d.run_at = u.run_at and d.id = u.id)
from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) with ordinality u (lane, run_at, id, n) order by u.n

-- name: undispatched
-- Jobs that are queued, or will be soon, and are unknown to the dispatcher. In: the latest run_at, the limit. Out: lane, run_at, id.
-- Index: the heads of punctual_ready_undispatched and punctual_due_undispatched.
(select lane, run_at, id from punctual_ready where not dispatched and limit_key is null order by queued_at limit $2::int8)
union all
(select lane, run_at, id from punctual_due where not dispatched and run_at <= $1::timestamptz order by run_at limit $2::int8)

-- name: mark_dispatched
-- Records that the dispatcher has been informed of jobs. Rows that another transaction has locked are skipped, whatever the order in which it
-- locks them: the dispatcher is informed of those jobs again. In: lanes, run_ats, ids. Out: the number of
-- rows changed. Index: primary keys.
with marked as materialized (select * from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)),
ready as materialized (
    select r.place from marked cross join lateral (
        select r.ctid as place from punctual_ready r
        where r.lane = marked.lane and r.run_at = marked.run_at and r.id = marked.id and not r.dispatched
        limit 1 for update skip locked) r),
due as materialized (
    select d.place from marked cross join lateral (
        select d.ctid as place from punctual_due d
        where d.run_at = marked.run_at and d.id = marked.id and not d.dispatched
        limit 1 for update skip locked) d),
updated_ready as (
    update punctual_ready set dispatched = true where ctid = any (array(select place from ready)) returning 1),
updated_due as (
    update punctual_due set dispatched = true where ctid = any (array(select place from due)) returning 1)
select (select count(*) from updated_ready) + (select count(*) from updated_due)
