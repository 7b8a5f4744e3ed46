-- name: limits_work
-- Which limits may allow a job to start. In: queues; lanes of jobs with keys; lanes of limited queues, and for each the run_at and the id
-- before which no job is expected. Out: 0, the number of a queue and when the first of its keys is to be checked; 1 and the number of a
-- lane that has a job, the lanes of both lists counted together. Index: one step in an index for each.
select 0, q.i, m.at from unnest($1::text[]) with ordinality q (queue, i) cross join lateral (
    select m.at from punctual_limit_wakeups m where m.queue = q.queue order by m.at limit 1) m
union all
select 1, k.i, null from unnest($2::int4[]) with ordinality k (lane, i) cross join lateral (
    select h.id from punctual_limit_heads h where h.lane = k.lane limit 1) h
union all
select 1, cardinality($2::int4[]) + k.i, null
from unnest($3::int4[], $4::timestamptz[], $5::uuid[]) with ordinality k (lane, low, low_id, i) cross join lateral (
    select r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id) order by r.run_at, r.id limit 1) r

-- name: limits_lock
-- Locks the limits of queues for a claim. In: queues. Out: those that were not locked already.
select q.queue from unnest($1::text[]) q (queue)
where pg_try_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext(q.queue))

-- name: limits_wait
-- Waits until no claim holds the lock on the limits of a queue, and takes it. In: the queue.
select pg_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext($1::text))

-- name: limits_begin
-- In: the time (or null). Out: the current time, and the sum of the queues' revisions. The transaction may have waited since it began, and
-- starts must not be counted at an earlier time than their own.
select coalesce($1::timestamptz, clock_timestamp()), {queues_revision}

-- name: move_late_starts
-- Moves starts that are counted at a time after now, in intervals of a rate that has changed since, to now. In: the time (or null), the
-- queue. Index: all rows of the queue.
with deleted_limit_starts as (delete from punctual_limit_starts where queue = $2::text and at > {now} returning key, n)
insert into punctual_limit_starts as s (queue, key, at, n) select $2::text, key, {now}, sum(n) from deleted_limit_starts group by key
on conflict (queue, key, at) do update set n = s.n + excluded.n

-- name: due_wakeups
-- Deletes the wakeups of keys that are to be checked now. In: the time (or null), queues, the limit for each. Out: queues and keys.
-- Index: the head of punctual_limit_wakeups_time for each queue.
with due as materialized (
    select m.place from unnest($2::text[]) q (queue) cross join lateral (
        select m.ctid as place from punctual_limit_wakeups m where m.queue = q.queue and m.at <= {now} order by m.at limit $3::int8) m)
delete from punctual_limit_wakeups where ctid = any (array(select place from due)) returning queue, key

-- name: insert_wakeups
-- Adds wakeups for keys with queued jobs, unless they exist. In: queues, times, keys. Out: those times.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
with given as materialized (
    select u.queue, u.at, u.key from unnest($1::text[], $2::timestamptz[], $3::text[]) u (queue, at, key)
    where exists (
        select from punctual_lanes n cross join lateral (
            select r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane limit 1) r
        where n.queue = u.queue and n.keyed)),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select * from given where not exists (select from punctual_limit_wakeups o where o.queue = given.queue and o.at = given.at and o.key = given.key))
select at from given

-- name: wake_queue
-- Adds wakeups for all keys of a queue with queued jobs. In: the time (or null), the queue.
-- Index: each lane's range of punctual_ready, whole.
insert into punctual_limit_wakeups (queue, at, key)
select distinct n.queue, {now}, r.limit_key from punctual_lanes n join punctual_ready r on r.lane = n.lane
where n.queue = $2::text and n.keyed and r.limit_key is not null

-- name: held_of_keys
-- How many jobs of keys are running, including slots occupied by cancelled jobs. In: queues, keys, the time. Out: the number of a key and
-- its count; no row if the count is 0. Index: punctual_running_limit_key, punctual_occupied_slots_limit_key. Not as a join: a plan that was
-- made while no job was running would read the whole table for each key.
select u.i, count(*) from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i) cross join lateral (
    select n.queue from (
        select r.lane from punctual_running r where r.limit_key = any (array[u.key]) and r.limit_key is not null offset 0) r cross join lateral (
        select n.queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = u.queue
    union all
    select s.queue from punctual_occupied_slots s where s.queue = u.queue and s.limit_key = u.key and s.lease_until > $3::timestamptz) h
group by u.i

-- name: held_of_queues
-- How many jobs of queues are running, including slots occupied by cancelled jobs. In: queues, the time. Out: queue, the count.
-- Reads all running jobs, which are as few as the fleet's concurrency. Index: a range of punctual_occupied_slots_limit_key for each queue.
select h.queue, count(*) from (
    select n.queue from punctual_running r cross join lateral (select queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = any ($1::text[])
    union all
    select s.queue from punctual_occupied_slots s where s.queue = any ($1::text[]) and s.lease_until > $2::timestamptz) h
group by h.queue

-- name: starts
-- Recent starts under limits. In: queues, keys, the times to start after. Out: the number of a key, time, count. Index: a range of the
-- primary key for each.
select u.i, s.at, s.n from unnest($1::text[], $2::text[], $3::timestamptz[]) with ordinality u (queue, key, horizon, i) cross join lateral (
    select s.at, s.n from punctual_limit_starts s where s.queue = u.queue and s.key = u.key and s.at > u.horizon) s

-- name: add_starts
-- Counts starts of limited jobs. In: queues, keys, times, counts, the times up to which starts are no longer counted. Index: primary key.
with deleted_limit_starts as (
    delete from punctual_limit_starts s using unnest($1::text[], $2::text[], $5::timestamptz[]) u (queue, key, horizon)
    where s.queue = u.queue and s.key = u.key and s.at <= u.horizon)
insert into punctual_limit_starts as s (queue, key, at, n) select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::int8[])
on conflict (queue, key, at) do update set n = s.n + excluded.n

-- name: turns
-- The turns of keys. In: queues, keys. Out: the number of a key, and its turn, if it has one. Index: primary key.
select u.i, t.turn from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i)
join punctual_limit_fairness t on t.queue = u.queue and t.key = u.key

-- name: save_turns
-- Stores the turns of keys. In: queues, keys, turns. Index: primary key.
insert into punctual_limit_fairness (queue, key, turn) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (queue, key) do update set turn = excluded.turn

-- name: delete_old_turns
-- Deletes keys that are behind their queue: they are treated as keys without a row. In: the queue, its turn.
-- Index: all rows of the queue; runs once per round.
delete from punctual_limit_fairness where queue = $1::text and turn <= $2::int8 and key <> ''

-- name: delete_heads
-- Deletes the heads of keys: none of their jobs is known to be allowed to start. In: queues, keys. Index: punctual_limit_heads_key.
delete from punctual_limit_heads h using unnest($1::text[], $2::text[]) u (queue, key) where h.queue = u.queue and h.key = u.key

-- name: insert_heads
-- Stores the heads of keys that may start a job: the first job of each, by lane. In: queues, keys, turns.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
insert into punctual_limit_heads (lane, turn, run_at, id, queue, key)
select n.lane, u.turn, r.run_at, r.id, u.queue, u.key from unnest($1::text[], $2::text[], $3::int8[]) u (queue, key, turn)
join punctual_lanes n on n.queue = u.queue and n.keyed cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane order by r.run_at, r.id limit 1) r

-- name: heads
-- The keys of lanes that have a job to start, in the order of their heads. In: lanes, the limit for each. Out: lane, queue, key, turn.
-- Index: the head of a range of the primary key for each.
select k.lane, h.queue, h.key, h.turn from unnest($1::int4[]) k (lane) cross join lateral (
    select h.queue, h.key, h.turn from punctual_limit_heads h where h.lane = k.lane order by h.turn, h.run_at, h.id limit $2::int8) h

-- name: keyed_first
-- The first queued jobs of keys. In: numbers of keys, keys, lanes, the limit for each. Out: the number, lane, run_at, id.
-- Index: the head of a range of punctual_ready_limit_key for each.
select u.i, u.lane, r.run_at, r.id from unnest($1::int4[], $2::text[], $3::int4[], $4::int8[]) u (i, key, lane, n) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -u.lane order by r.run_at, r.id limit u.n) r

-- name: plain_first
-- The first queued jobs of lanes without keys. In: lanes, for each the run_at and the id before which no job is expected, the limit for
-- each. Out: lane, run_at, id. Index: the head of a range of the primary key for each.
select k.lane, r.run_at, r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) k (lane, low, low_id) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
    order by r.run_at, r.id limit $4::int8) r

-- name: prune_limits
-- Deletes rows that limits no longer need. In: the limit; queues, and the time up to which starts are no longer counted in each; fair
-- queues; the time. Reads the tables whole; runs rarely.
with deleted_limit_starts as (
    delete from punctual_limit_starts where (queue, key, at) in (
        select s.queue, s.key, s.at from punctual_limit_starts s
        where s.at <= coalesce((select u.horizon from unnest($2::text[], $3::timestamptz[]) u (queue, horizon) where u.queue = s.queue), 'infinity')
        limit $1::int8)),
deleted_slots as (delete from punctual_occupied_slots where lease_until <= $5::timestamptz)
delete from punctual_limit_fairness where (queue, key) in (
    select t.queue, t.key from punctual_limit_fairness t where not (t.queue = any ($4::text[])) limit $1::int8)

-- name: slots_release
-- Releases the slots that executions of cancelled jobs occupy. In: the time (or null), ids, runs, workers, in the order of ids. Out: the
-- count. Keys are checked now instead of at the end of the lease, unless another slot's lease ends then. Index: primary key,
-- punctual_limit_wakeups_time, punctual_occupied_slots_limit_key.
with deleted_slots as (
    delete from punctual_occupied_slots s using unnest($2::uuid[], $3::int4[], $4::uuid[]) u (id, run, worker_id)
    where s.job_id = any (array[u.id]) and s.run = u.run and s.worker_id = u.worker_id returning s.*),
{freed}

-- name: slots_release_of
-- Releases the slots of a worker that is known to be dead. In: the time (or null), the worker. Out: the count.
-- Reads all occupied slots, which are few. Index: as of slots_release.
with deleted_slots as (delete from punctual_occupied_slots s where s.worker_id = $2::uuid returning s.*),
{freed}

-- name: slots_occupied
-- The occupied slots of a queue and its keys. In: queue, the time. Index: a range of punctual_occupied_slots_limit_key. Sorts the rows
-- found, which are few.
select job_id, run, worker_id, nullif(limit_key, ''), lease_until from punctual_occupied_slots
where queue = $1::text and lease_until > $2::timestamptz order by job_id, run
