-- name: claim_text
-- Claims queued jobs for a worker: the first ones of all lanes together, by priority, then run_at, then id.
-- In: the time (or null), the lanes, for each the run_at and the id before which no job is expected, the limit, the worker, the lease, the
-- time before which no job is expected to be due, the sum of the queues' revisions that the claim knows, and if there are several lanes the
-- rank of each. Out: one row per job, or one without a job; each with the time of the claim, when the next job is due, and the current sum
-- of revisions: if it differs from the known one, no job is claimed. Index: a range of the primary key for each lane.
with {places},
taken as (delete from punctual_ready where ctid = any (array(select place from places)) returning *),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select taken.id, $6::uuid, {now} + $7::int8 * interval '1 microsecond', greatest({now}, taken.queued_at), taken.queued_at, taken.run_at, taken.run + 1, taken.attempt + 1,
        taken.events + 1, taken.lane, taken.keep_for_ms, taken.user_id, taken.flow, {limit_key}
    from taken),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', {now} - run_at)) * 1000000), {buckets}) as bucket, count(*) as n
    from taken group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', bucket, n from lateness)
select {now}, (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    taken.id, taken.run + 1, taken.attempt + 1, taken.lane, taken.run_at, taken.queued_at, taken.max_attempts, taken.timeout_ms, taken.keep_for_ms, taken.ephemeral, taken.user_id,
    taken.correlation_id, taken.unique_key, taken.workflow_id, taken.options, taken.payload, {queues_revision}, (select set_config('synchronous_commit', 'off', true))
from (select) t left join taken on true

-- name: claim_places_one
-- The rows that claim takes, if there is only one lane.
places as materialized (
    select r.ctid as place from punctual_ready r
    where r.lane = ($2::int4[])[1] and (r.run_at, r.id) >= (($3::timestamptz[])[1], ($4::uuid[])[1])
        and {queues_revision} = $9::int8
    order by r.run_at, r.id limit $5::int8 for update skip locked)

-- name: claim_places_many
-- The rows that claim takes from several lanes.
lanes as materialized (
    select * from unnest($2::int4[], $3::timestamptz[], $4::uuid[], $10::int4[]) as u (lane, low, low_id, rank)
    where {queues_revision} = $9::int8),
-- The lanes of the first jobs, read without a lock.
first_jobs as materialized (
    select lanes.lane from lanes cross join lateral (
        select r.run_at, r.id from punctual_ready r where r.lane = lanes.lane and (r.run_at, r.id) >= (lanes.low, lanes.low_id)
        order by r.run_at, r.id limit $5::int8) s
    order by lanes.rank, s.run_at, s.id limit $5::int8),
shares as materialized (select lane, count(*) as n from first_jobs group by lane),
-- That number of jobs from each lane, without those that another claim has locked.
places as materialized (
    select s.place from shares cross join lateral (select * from lanes where lanes.lane = shares.lane limit 1) lanes cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = lanes.lane and (r.run_at, r.id) >= (lanes.low, lanes.low_id)
        order by r.run_at, r.id limit shares.n for update skip locked) s)

-- name: claim_places_chosen
-- The rows that claim takes, if they were chosen before: lanes, run_ats and ids of jobs. Additional parameters: the lanes of limited
-- queues.
places as materialized (
    select s.place from unnest($2::int4[], $3::timestamptz[], $4::uuid[]) as chosen (lane, run_at, id) cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = chosen.lane and r.run_at = chosen.run_at and r.id = chosen.id
        limit $5::int8 for update skip locked) s
    where {queues_revision} = $9::int8)

-- name: claim_ahead
-- Claims jobs for a worker that will be due within a short time, each as of its run_at, earliest first. In: the time (or null), the lanes,
-- how far ahead, the limit, the worker, the lease, the sum of the queues' revisions that the claim knows. Out: as claim, without the
-- columns that only the row of a new job has. Index: a range of the primary key.
with places as materialized (
    select due.ctid as place from punctual_due due
    where due.run_at > {now} and due.run_at <= {now} + $3::int8 * interval '1 microsecond' and due.lane = any ($2::int4[])
        and {queues_revision} = $7::int8
    order by due.run_at, due.id limit $4::int8 for update skip locked),
due as (delete from punctual_due where ctid = any (array(select place from places)) returning *),
jobs as (
    update punctual_jobs jobs set status = 'queued', updated_at = due.run_at, events = jobs.events + 1
    from due where jobs.scheduled_at = due.scheduled_at and jobs.id = due.id
    returning jobs.id, jobs.lane, jobs.run_at, jobs.attempt, jobs.run, jobs.events, jobs.keep_for_ms, jobs.user_id, jobs.flow, due.status as was, due.since),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, $5::uuid, run_at + $6::int8 * interval '1 microsecond', run_at, run_at, run_at, run + 1, attempt + 1, events + 1, lane,
        keep_for_ms, user_id, flow
    from jobs),
queued_events as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, run_at, since, 'queued' from jobs),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from jobs group by lane, was
    union all
    select lane, 'processing', count(*) from jobs group by lane),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness', 0, count(*) from jobs group by 1, 2)
select {now}, (
        select due.run_at from punctual_due due where due.ctid <> all (array(select place from places)) order by due.run_at limit 1) as next_run_at,
    jobs.id, jobs.run + 1, jobs.attempt + 1, jobs.lane, jobs.run_at, (select set_config('synchronous_commit', 'off', true))
from (select) t left join jobs on true

-- name: claim_read
-- The columns of claimed jobs for their worker, from one partition. In: ids, scheduled_ats.
-- Index: the whole primary key.
select {columns} from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
