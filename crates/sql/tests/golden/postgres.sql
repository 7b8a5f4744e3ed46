-- Every statement that is sent to PostgreSQL, made from crates/sql/src/postgres/sql by a test; not edited by hand.
-- {jobs} is a partition of punctual_jobs, {ids} and {times} are parameters of the jobs in it.

-- name: add_ends
-- Counts jobs of workflows that have ended. In: the time (or null), ids, scheduled_ats, statuses. Index: the whole primary key.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
select j.workflow_id, coalesce($1::timestamptz, now()), count(*) filter (where u.status = 'succeeded'), count(*) filter (where u.status = 'dead'),
    count(*) filter (where u.status in ('cancelled', 'deleted'))
from unnest($2::uuid[], $3::timestamptz[], $4::text[]) u (id, scheduled_at, status)
cross join lateral (select j.workflow_id from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.workflow_id is not null and exists (select from punctual_nodes n where n.job_id = u.id) group by j.workflow_id;

-- name: add_starts
-- Counts starts of limited jobs. In: queues, keys, times, counts, the times up to which starts are no longer counted. Index: primary key.
with deleted_limit_starts as (
    delete from punctual_limit_starts s using unnest($1::text[], $2::text[], $5::timestamptz[]) u (queue, key, horizon)
    where s.queue = u.queue and s.key = u.key and s.at <= u.horizon)
insert into punctual_limit_starts as s (queue, key, at, n) select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::int8[])
on conflict (queue, key, at) do update set n = s.n + excluded.n;

-- name: announce_late_commit
-- An application has stored jobs in its own transaction: notifies waiting processes, and adds a row for readers that follow changes.
-- In: the time (or null), the channel, the payloads.
with inserted_late_commits as (
    insert into punctual_late_commits (written, began, whole)
    select coalesce($1::timestamptz, clock_timestamp()), coalesce($1::timestamptz, now()), pg_current_xact_id()::text::int8 & 4294967295)
select pg_notify($2, w) from unnest($3::text[]) w;

-- name: begin
-- Records executions that have begun: the first ones of jobs that have not changed since their enqueue. In: the time (or null), lanes,
-- run_ats, ids, starts, workers, leases. Out: the ids of those that were recorded. Index: the whole primary key.
with begun as (
    delete from punctual_ready r
    using unnest($2::int4[], $3::timestamptz[], $4::uuid[], $5::timestamptz[], $6::uuid[], $7::int8[])
        as s (lane, run_at, id, started_at, worker_id, lease)
    -- The lane is not compared by plain equality: while the table is known to be empty, the planner would join by a full scan. The other
    -- columns are: otherwise only the lane would be searched for in the index.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id and r.run = 0 and r.events = 1
    returning r.*, s.started_at, s.worker_id, s.lease),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, worker_id, started_at + lease * interval '1 microsecond', greatest(started_at, queued_at), queued_at, run_at, run + 1, attempt + 1, events + 1,
        lane, keep_for_ms, user_id, flow
    from begun),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from begun group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from lateness)
select id, (select set_config('synchronous_commit', 'off', true)) from begun;

-- name: begin_refused
-- Adds a line to the log of each job that was started, but changed before the start was recorded: cancelled, replaced, or started by
-- another worker. Not if the start was recorded before and the response was lost.
-- In: the time (or null), ids, scheduled_ats, workers, the beginning of each line. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select s.id, 1, 0, coalesce($1::timestamptz, now()), 'warn',
    s.message || case when r.id is null then j.status else 'processing' end || '), so that this execution does not count'
from unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[]) s (id, scheduled_at, worker_id, message)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = s.scheduled_at and j.id = s.id) j
left join punctual_running r on r.id = s.id
where case when r.id is null then j.run = 0 else r.worker_id <> s.worker_id end
on conflict do nothing;

-- name: change_ends
-- Corrects the counts of a workflow's ended jobs. In: the time (or null), workflow, changes of the three counts.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
values ($2::uuid, coalesce($1::timestamptz, now()), $3::int4, $4::int4, $5::int4);

-- name: change_hold_due
-- Locks the rows of scheduled and retrying jobs against promotion. In: run_ats, ids. Index: the whole primary key.
select d.id from unnest($1::timestamptz[], $2::uuid[]) u (run_at, id)
cross join lateral (select id from punctual_due d where d.run_at = u.run_at and d.id = u.id for update) d;

-- name: change_hold_jobs
-- Locks jobs, in the order of ids. In: ids, scheduled_ats. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id for update) j;

-- name: change_hold_ready
-- Locks the rows of queued jobs against claims. In: lanes, run_ats, ids. Index: the whole primary key.
select r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)
cross join lateral (
    select id from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id for update) r;

-- name: change_hold_running
-- Locks the executions of jobs against settles, in the order of ids. In: ids. Index: primary key.
select r.id from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id for update) r;

-- name: change_leave_due
-- Removes a job from the due jobs. In: run_at, id. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_due where run_at = $1::timestamptz and id = $2::uuid;

-- name: change_leave_ready
-- Removes a job from its lane. In: lane, run_at, id. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_ready where lane = $1::int4 and run_at = $2::timestamptz and id = $3::uuid;

-- name: change_save
-- Moves a job from one state to another, with one event. Its row in punctual_ready or punctual_due has already been deleted.
-- In: the job's columns before and after, see change.rs. Index: primary keys.
with job as materialized (select $1::uuid as id, $2::timestamptz as scheduled_at, $3::timestamptz as now),
deleted_running as (delete from punctual_running r using job where r.id = job.id returning r.*),
inserted_rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', job.now, 'UTC'), deleted_running.lane, 'cancelled',
        width_bucket(round(greatest(0, date_part('epoch', job.now - deleted_running.started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]), 1
    from deleted_running, job),
updated_jobs as (
    update punctual_jobs j set status = $4::text, run_at = $5::timestamptz, attempt = $6::int4, run = $7::int4, max_attempts = $8::int4,
        updated_at = job.now, waiting_on = $19::int4, started_at = $9::timestamptz, finished_at = $10::timestamptz, events = $11::int4 + 1
    from job where j.scheduled_at = job.scheduled_at and j.id = job.id
    returning j.*),
inserted_ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, updated_at, lane, attempt, run, events, keep_for_ms, user_id, flow, options::json ->> 'concurrency_key' from updated_jobs where status = 'queued'),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select queue, updated_at, options::json ->> 'concurrency_key' from updated_jobs
    where options::json ->> 'concurrency_key' is not null and (status = 'queued' or $16::text in ('queued', 'processing'))),
-- If its execution is limited, it keeps its slot until its handler has ended or its lease expires: then claims check its key.
inserted_occupied_slots as (
    insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until)
    select deleted_running.id, deleted_running.run, deleted_running.worker_id, updated_jobs.queue, deleted_running.limit_key, deleted_running.lease_until from deleted_running join updated_jobs on updated_jobs.id = deleted_running.id
    where deleted_running.limit_key is not null and deleted_running.lease_until > updated_jobs.updated_at
    on conflict do nothing returning queue, lease_until, limit_key),
woken_keys as (insert into punctual_limit_wakeups (queue, at, key) select * from inserted_occupied_slots),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome, actor,
        detail)
    select job.id, $11::int4 + 1, job.now, coalesce(deleted_running.queued_at, $12::timestamptz), deleted_running.started_at, updated_jobs.lane, $13::int4, deleted_running.attempt,
        deleted_running.worker_id, case $4::text when 'cancelled' then 2 else 0 end, $4::text,
        case when deleted_running.id is not null then 'cancelled' end, $14::text, $15::text
    from job cross join updated_jobs left join deleted_running on true),
deleted_keys as (
    delete from punctual_keys k using updated_jobs
    where $4::text in ('cancelled', 'deleted') and updated_jobs.unique_key is not null and k.job_id = updated_jobs.id),
updated_events as (
    update punctual_events e set final = 0 from job
    where e.at = $17::timestamptz and e.job_id = job.id and e.final in (1, 2, 3)),
inserted_deleted as (
    insert into punctual_deleted (deleted_at, id, finished_at) select updated_at, id, finished_at from updated_jobs where status = 'deleted'),
deleted_waiting as (delete from punctual_waiting w using job where w.id = job.id),
inserted_ends_pending as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, job.now, $20::int4, $21::int4, $22::int4 from updated_jobs, job
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = updated_jobs.id) and ($20::int4, $21::int4, $22::int4) <> (0, 0, 0)),
deleted_expiries as (
    delete from punctual_expiries d using updated_jobs
    where d.expires_at = $17::timestamptz + updated_jobs.keep_for_ms * interval '1 millisecond' and d.id = updated_jobs.id),
inserted_expiries as (
    insert into punctual_expiries (expires_at, id)
    select finished_at + keep_for_ms * interval '1 millisecond', id from updated_jobs
    where status = 'cancelled' and keep_for_ms is not null),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.n from updated_jobs, (values ($16::text, -1), ($4::text, 1)) s (status, n)),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, $18::int8 from updated_jobs where user_id is not null and $18::int8 <> 0)
select 1;

-- name: changes
-- Changes that became visible between two snapshots, in the order of time.
-- In: the earliest time that they may have; the times of the earlier and of the later snapshot; for each snapshot its upper bound of
-- transaction ids and the open transactions; the limit. Out: stored events; starts of executions that are running; the initial queued
-- events of jobs that have not changed since.
-- Index: punctual_events_final, one range for each value of final; a range of the jobs' primary key. Reads punctual_running whole.
with parts as materialized (
    select l.xmin::text::int8 as part, l.began, (((l.whole - $4::int8) & 4294967295) < 2147483648 or l.whole = any ($5::int8[])) and not (((l.whole - $6::int8) & 4294967295) < 2147483648 or l.whole = any ($7::int8[])) as is_new from punctual_late_commits l where l.written >= $1::timestamptz),
late as materialized (select distinct part, began from parts where is_new),
found as (
    select e.* from unnest('{0, 1, 2, 3}'::int2[]) f (final) cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where e.final = f.final and e.at >= $1::timestamptz and ((((e.xmin::text::int8) - $4::int8) & 4294967295) < 2147483648 or (e.xmin::text::int8) = any ($5::int8[])) and not ((((e.xmin::text::int8) - $6::int8) & 4294967295) < 2147483648 or (e.xmin::text::int8) = any ($7::int8[])) and (e.final <> 0 or e.status not in ('succeeded', 'dead', 'cancelled'))
            and e.xmin::text::int8 <> all (array(select part from parts))
        order by e.at, e.job_id limit $8::int8) e
    union all
    select e.* from late cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = late.began and e.xmin::text::int8 = late.part and (e.final <> 0 or e.status not in ('succeeded', 'dead', 'cancelled')) limit $8::int8) e
    union all
    -- Starts only: an execution whose lease was extended has an earlier start.
    select r.id, r.events, r.started_at, 'processing', r.run, null, null from punctual_running r
    where r.started_at >= $2::timestamptz - interval '500 milliseconds' and ((((r.xmin::text::int8) - $4::int8) & 4294967295) < 2147483648 or (r.xmin::text::int8) = any ($5::int8[])) and not ((((r.xmin::text::int8) - $6::int8) & 4294967295) < 2147483648 or (r.xmin::text::int8) = any ($7::int8[]))
    union all
    select * from (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= $1::timestamptz - interval '1 second' and j.scheduled_at <= $3::timestamptz + interval '1 second'
            and ((((j.xmin::text::int8) - $4::int8) & 4294967295) < 2147483648 or (j.xmin::text::int8) = any ($5::int8[])) and not ((((j.xmin::text::int8) - $6::int8) & 4294967295) < 2147483648 or (j.xmin::text::int8) = any ($7::int8[])) and j.status = 'queued' and j.events = 1 and j.progress is null and scheduled_at between created_at - interval '1 second' and created_at + interval '1 second'
            and (not j.flow or j.workflow_id is not null or j.created_at > $2::timestamptz) and j.xmin::text::int8 <> all (array(select part from parts))
        order by j.scheduled_at, j.id limit $8::int8) j
    union all
    select j.* from late cross join lateral (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= late.began - interval '1 second' and j.scheduled_at <= late.began + interval '1 second'
            and j.xmin::text::int8 = late.part and j.status = 'queued' and j.events = 1 and j.progress is null and scheduled_at between created_at - interval '1 second' and created_at + interval '1 second'
            and (not j.flow or j.workflow_id is not null or j.created_at > $2::timestamptz) limit $8::int8) j)
select * from found order by at, job_id, n limit $8::int8;

-- name: changes_jobs
-- The columns of jobs that subscribers to changes filter by. In: ids, scheduled_ats. Index: the whole primary key.
select j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: changes_stand
-- The current snapshot: the time, the least transaction id that had not begun, and the open transactions. A transaction with a lesser id
-- that is not among them has ended; if it was committed, the next statement sees it. In: the time (or null).
-- Read from locks, which are held until the end is visible to all transactions.
select coalesce($1::timestamptz, now()), pg_snapshot_xmax(pg_current_snapshot())::text::int8,
    array(select l.transactionid::text::int8 from pg_locks l
          where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted);

-- name: children_of
-- The children of a job, waiting or not. In: id, the limit. Index: primary key.
select child from punctual_dependencies where parent = $1::uuid order by child limit $2::int8;

-- name: claim chosen
-- Claims queued jobs for a worker: the first ones of all lanes together, by priority, then run_at, then id.
-- In: the time (or null), the lanes, for each the run_at and the id before which no job is expected, the limit, the worker, the lease, the
-- time before which no job is expected to be due, the sum of the queues' revisions that the claim knows, and if there are several lanes the
-- rank of each. Out: one row per job, or one without a job; each with the time of the claim, when the next job is due, and the current sum
-- of revisions: if it differs from the known one, no job is claimed. Index: a range of the primary key for each lane.
with -- The rows that claim takes, if they were chosen before: lanes, run_ats and ids of jobs. Additional parameters: the lanes of limited
-- queues.
places as materialized (
    select s.place from unnest($2::int4[], $3::timestamptz[], $4::uuid[]) as chosen (lane, run_at, id) cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = chosen.lane and r.run_at = chosen.run_at and r.id = chosen.id
        limit $5::int8 for update skip locked) s
    where ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8),
taken as (delete from punctual_ready where ctid = any (array(select place from places)) returning *),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select taken.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), taken.queued_at), taken.queued_at, taken.run_at, taken.run + 1, taken.attempt + 1,
        taken.events + 1, taken.lane, taken.keep_for_ms, taken.user_id, taken.flow, coalesce(taken.limit_key, case when taken.lane = any ($10::int4[]) then '' end)
    from taken),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from taken group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from lateness)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    taken.id, taken.run + 1, taken.attempt + 1, taken.lane, taken.run_at, taken.queued_at, taken.max_attempts, taken.timeout_ms, taken.keep_for_ms, taken.ephemeral, taken.user_id,
    taken.correlation_id, taken.unique_key, taken.workflow_id, taken.options, taken.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join taken on true;

-- name: claim many lanes
-- Claims queued jobs for a worker: the first ones of all lanes together, by priority, then run_at, then id.
-- In: the time (or null), the lanes, for each the run_at and the id before which no job is expected, the limit, the worker, the lease, the
-- time before which no job is expected to be due, the sum of the queues' revisions that the claim knows, and if there are several lanes the
-- rank of each. Out: one row per job, or one without a job; each with the time of the claim, when the next job is due, and the current sum
-- of revisions: if it differs from the known one, no job is claimed. Index: a range of the primary key for each lane.
with -- The rows that claim takes from several lanes.
lanes as materialized (
    select * from unnest($2::int4[], $3::timestamptz[], $4::uuid[], $10::int4[]) as u (lane, low, low_id, rank)
    where ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8),
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
        order by r.run_at, r.id limit shares.n for update skip locked) s),
taken as (delete from punctual_ready where ctid = any (array(select place from places)) returning *),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select taken.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), taken.queued_at), taken.queued_at, taken.run_at, taken.run + 1, taken.attempt + 1,
        taken.events + 1, taken.lane, taken.keep_for_ms, taken.user_id, taken.flow, null
    from taken),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from taken group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from lateness)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    taken.id, taken.run + 1, taken.attempt + 1, taken.lane, taken.run_at, taken.queued_at, taken.max_attempts, taken.timeout_ms, taken.keep_for_ms, taken.ephemeral, taken.user_id,
    taken.correlation_id, taken.unique_key, taken.workflow_id, taken.options, taken.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join taken on true;

-- name: claim one lane
-- Claims queued jobs for a worker: the first ones of all lanes together, by priority, then run_at, then id.
-- In: the time (or null), the lanes, for each the run_at and the id before which no job is expected, the limit, the worker, the lease, the
-- time before which no job is expected to be due, the sum of the queues' revisions that the claim knows, and if there are several lanes the
-- rank of each. Out: one row per job, or one without a job; each with the time of the claim, when the next job is due, and the current sum
-- of revisions: if it differs from the known one, no job is claimed. Index: a range of the primary key for each lane.
with -- The rows that claim takes, if there is only one lane.
places as materialized (
    select r.ctid as place from punctual_ready r
    where r.lane = ($2::int4[])[1] and (r.run_at, r.id) >= (($3::timestamptz[])[1], ($4::uuid[])[1])
        and ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8
    order by r.run_at, r.id limit $5::int8 for update skip locked),
taken as (delete from punctual_ready where ctid = any (array(select place from places)) returning *),
leases as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select taken.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), taken.queued_at), taken.queued_at, taken.run_at, taken.run + 1, taken.attempt + 1,
        taken.events + 1, taken.lane, taken.keep_for_ms, taken.user_id, taken.flow, null
    from taken),
lateness as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from taken group by 1, 2),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lateness.lane, s.status, sum(s.sign * lateness.n) from lateness, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from lateness)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    taken.id, taken.run + 1, taken.attempt + 1, taken.lane, taken.run_at, taken.queued_at, taken.max_attempts, taken.timeout_ms, taken.keep_for_ms, taken.ephemeral, taken.user_id,
    taken.correlation_id, taken.unique_key, taken.workflow_id, taken.options, taken.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join taken on true;

-- name: claim_ahead
-- Claims jobs for a worker that will be due within a short time, each as of its run_at, earliest first. In: the time (or null), the lanes,
-- how far ahead, the limit, the worker, the lease, the sum of the queues' revisions that the claim knows. Out: as claim, without the
-- columns that only the row of a new job has. Index: a range of the primary key.
with places as materialized (
    select due.ctid as place from punctual_due due
    where due.run_at > coalesce($1::timestamptz, now()) and due.run_at <= coalesce($1::timestamptz, now()) + $3::int8 * interval '1 microsecond' and due.lane = any ($2::int4[])
        and ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $7::int8
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
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', 0, count(*) from jobs group by 1, 2)
select coalesce($1::timestamptz, now()), (
        select due.run_at from punctual_due due where due.ctid <> all (array(select place from places)) order by due.run_at limit 1) as next_run_at,
    jobs.id, jobs.run + 1, jobs.attempt + 1, jobs.lane, jobs.run_at, (select set_config('synchronous_commit', 'off', true))
from (select) t left join jobs on true;

-- name: claim_read
-- The columns of claimed jobs for their worker, from one partition. In: ids, scheduled_ats.
-- Index: the whole primary key.
select j.id, j.name, j.queue, j.status, j.priority, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts,
    j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
    j.updated_at, j.started_at, j.finished_at, j.options, j.payload, j.progress, j.result, j.error from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: clear_tokens
-- Deletes all tokens and sessions, unless a token is valid. In: the time (or null). The table is small.
delete from punctual_tokens where not exists (
    select from punctual_tokens valid
    where valid.session_of is null and (valid.expires_at is null or valid.expires_at > coalesce($1::timestamptz, now()))
);

-- name: confirm
-- Records that handlers are about to start, if their leases have not expired. In: the time (or null), ids, runs, the worker.
-- Out: the ids and runs that are held. Durable when it returns. Locks rows in the order of ids, as settles do. Index: primary key.
with held as materialized (
    select r.ctid as place from unnest($2::uuid[], $3::int4[]) wanted (id, run)
    cross join lateral (
        select r.ctid from punctual_running r
        where r.id = wanted.id and r.run = wanted.run and r.worker_id = $4::uuid and r.lease_until > coalesce($1::timestamptz, now()) for update) r)
update punctual_running r set confirmed = true where r.ctid = any (array(select place from held)) returning r.id, r.run;

-- name: counts
-- The number of jobs by queue, name and status. Reads two small tables whole.
select l.queue, l.name, c.status, sum(c.n)::int8
from (select * from punctual_counts union all select * from punctual_counts_new) c join punctual_lanes l on l.lane = c.lane
group by l.queue, l.name, c.status having sum(c.n) > 0;

-- name: dead_by_name
-- The number of jobs, by name, that died in a period and are still dead. In: since, until. Index: a range of punctual_events_dead,
-- index-only.
select l.name, sum(d.n)::int8 from (
    select e.lane, count(*) as n from punctual_events e
    where e.final = 1 and e.at >= $1::timestamptz and e.at < $2::timestamptz group by e.lane) d
join punctual_lanes l on l.lane = d.lane
group by l.name order by 2 desc, 1;

-- name: delete_dependencies
-- Deletes the dependencies of jobs on their parents. In: ids. Index: punctual_dependencies_child.
delete from punctual_dependencies d using unnest($1::uuid[]) u (id) where d.child = any (array[u.id]);

-- name: delete_heads
-- Deletes the heads of keys: none of their jobs is known to be allowed to start. In: queues, keys. Index: punctual_limit_heads_key.
delete from punctual_limit_heads h using unnest($1::text[], $2::text[]) u (queue, key) where h.queue = u.queue and h.key = u.key;

-- name: delete_jobs
-- Deletes jobs that are not running, with all rows that belong to them. In: ids, scheduled_ats. Out: the count.
-- Index: primary keys, and punctual_events_final from each job's last event backwards.
with recursive given as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
deleted_jobs as (
    delete from punctual_jobs j using given where j.scheduled_at = given.scheduled_at and j.id = given.id returning j.*),
story (id, at) as (
    select j.id, j.updated_at from punctual_jobs j join given on j.scheduled_at = given.scheduled_at and j.id = given.id
    union
    select s.id, e.previous_at from story s join punctual_events e on e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = s.id where e.previous_at is not null),
deleted_events as (delete from punctual_events e using story s where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = s.id),
deleted_logs as (delete from punctual_logs g using deleted_jobs where g.job_id = deleted_jobs.id),
deleted_labels as (
    delete from punctual_labels l using (
        select 'user' as kind, user_id as value, scheduled_at, id from deleted_jobs where user_id is not null
        union all
        select 'correlation', correlation_id, scheduled_at, id from deleted_jobs where correlation_id is not null
        union all
        select 'tag', tag, scheduled_at, id from deleted_jobs, json_array_elements_text(deleted_jobs.options::json -> 'tags') tag where options is not null
        union all
        select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from deleted_jobs
        where options::json #>> '{occurrence,schedule}' is not null) x
    where l.kind = x.kind and l.value = x.value and l.scheduled_at = x.scheduled_at and l.id = x.id),
deleted_ready as (delete from punctual_ready r using deleted_jobs where r.lane = deleted_jobs.lane and r.run_at = deleted_jobs.run_at and r.id = deleted_jobs.id),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, updated_at, options::json ->> 'concurrency_key' from deleted_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
deleted_due as (delete from punctual_due d using deleted_jobs where d.run_at = deleted_jobs.run_at and d.id = deleted_jobs.id),
deleted_waiting as (delete from punctual_waiting w using deleted_jobs where w.id = deleted_jobs.id),
deleted_dependencies as (delete from punctual_dependencies d using given where d.parent = given.id),
deleted_dependents as (delete from punctual_dependencies d using given where d.child = given.id and not exists (select from given p where p.id = d.parent)),
deleted_nodes as (delete from punctual_nodes n using given where n.job_id = given.id),
deleted_keys as (delete from punctual_keys k using deleted_jobs where deleted_jobs.unique_key is not null and k.job_id = deleted_jobs.id),
deleted_deleted as (delete from punctual_deleted x using deleted_jobs where deleted_jobs.status = 'deleted' and x.deleted_at = deleted_jobs.updated_at and x.id = deleted_jobs.id),
deleted_expiries as (
    delete from punctual_expiries x using deleted_jobs
    where x.expires_at = deleted_jobs.finished_at + deleted_jobs.keep_for_ms * interval '1 millisecond' and x.id = deleted_jobs.id),
deleted_ephemeral as (delete from punctual_ephemeral f using deleted_jobs where f.id = deleted_jobs.id),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, -count(*) from deleted_jobs group by lane, status),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from deleted_jobs where user_id is not null and finished_at is null group by user_id, name)
select count(*) from deleted_jobs;

-- name: delete_old_turns
-- Deletes keys that are behind their queue: they are treated as keys without a row. In: the queue, its turn.
-- Index: all rows of the queue; runs once per round.
delete from punctual_limit_fairness where queue = $1::text and turn <= $2::int8 and key <> '';

-- name: dependencies_of
-- The parents of jobs, pending or ended. In: the children. Out: parent, child, what the child does if the parent fails, whether the parent
-- succeeded (or null). Index: a range of punctual_dependencies_child for each.
select d.parent, d.child, d.policy, d.succeeded from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.child = u.id order by d.parent) d;

-- name: deregister
-- Removes a worker. Index: primary key.
delete from punctual_workers where id = $1::uuid;

-- name: dispatch
-- The state of the dispatcher. Out: the remaining time of its lease in microseconds, negative after its end; the time up to which it knows
-- due jobs; the id of this store; the microseconds since a process could last not reach it (or null); the start time of the server in
-- microseconds.
select (date_part('epoch', greatest(until, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8, due_until, store_id,
    (date_part('epoch', clock_timestamp() - unreachable_at) * 1000000)::int8, (date_part('epoch', pg_postmaster_start_time()) * 1000000)::int8
from punctual_dispatch;

-- name: dispatch_due
-- Records the time up to which the dispatcher knows due jobs. In: the time recorded so far (or null), the new one.
update punctual_dispatch set due_until = $2::timestamptz where due_until is not distinct from $1::timestamptz;

-- name: dispatch_extend
-- Extends the lease of the dispatcher. In: the lease in microseconds; if the lease had expired, for how many microseconds after its end the
-- last dispatched jobs may be unknown here; whether the caller claims jobs; for how many microseconds after such a caller could not reach
-- the dispatcher other callers do not extend the lease. Out: whether the lease had expired; no row if it was not extended.
with state as materialized (
    select d.until < clock_timestamp() as lapsed from punctual_dispatch d
    where $3::bool or coalesce(d.unreachable_at < clock_timestamp() - $4::int8 * interval '1 microsecond', true) for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when state.lapsed then d.until + $2::int8 * interval '1 microsecond' else d.opens_at end
from state returning state.lapsed;

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
update punctual_dispatch set due_until = null where exists (select from inserted_dispatch_queues);

-- name: dispatch_give_all
-- Assigns every queue to the dispatcher again.
with updated_dispatch_queues as (
    update punctual_dispatch_queues set epoch = epoch + 1, opens_at = d.opens_at, opened_at = null, loaded = false from punctual_dispatch d)
update punctual_dispatch set due_until = null;

-- name: dispatch_open
-- Opens a queue, unless another process has opened it in this epoch. In: queue, epoch. Rows changed: 1 if this call opened it.
update punctual_dispatch_queues set opened_at = clock_timestamp()
where queue = $1::text and epoch = $2::int8 and opened_at is null and opens_at <= clock_timestamp();

-- name: dispatch_opened
-- Records that the dispatcher knows all jobs of a queue. In: queue, epoch.
update punctual_dispatch_queues set loaded = true where queue = $1::text and epoch = $2::int8;

-- name: dispatch_queues
-- The queues assigned to the dispatcher. Out: queue, epoch, the microseconds until the queue may be opened, the microseconds since it was
-- opened (or null), whether all of its jobs are loaded.
select queue, epoch, (date_part('epoch', greatest(opens_at, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8,
    (date_part('epoch', clock_timestamp() - opened_at) * 1000000)::int8, loaded
from punctual_dispatch_queues;

-- name: dispatch_unreachable
-- Records that a process that claims jobs cannot reach the dispatcher.
update punctual_dispatch set unreachable_at = clock_timestamp();

-- name: due_between
-- Scheduled and retrying jobs after a position, up to a time. In: run_at and id of the position, the time, the limit, the lanes. Out: lane,
-- run_at, id. Index: a range of the primary key.
select lane, run_at, id from punctual_due where (run_at, id) > ($1::timestamptz, $2::uuid) and run_at <= $3::timestamptz and lane = any ($5::int4[])
order by run_at, id limit $4::int8;

-- name: due_options
-- The options of due jobs, earliest run_at first, as text: used if one of them is damaged.
-- In: the time (or null), the time before which no job is expected, the limit. Out: id, options. Index: the head of the primary key.
select d.id, j.options from punctual_due d join punctual_jobs j on j.scheduled_at = d.scheduled_at and j.id = d.id
where d.run_at >= $2::timestamptz and d.run_at <= coalesce($1::timestamptz, now()) and j.options is not null order by d.run_at, d.id limit $3::int8;

-- name: due_wakeups
-- Deletes the wakeups of keys that are to be checked now. In: the time (or null), queues, the limit for each. Out: queues and keys.
-- Index: the head of punctual_limit_wakeups_time for each queue.
with due as materialized (
    select m.place from unnest($2::text[]) q (queue) cross join lateral (
        select m.ctid as place from punctual_limit_wakeups m where m.queue = q.queue and m.at <= coalesce($1::timestamptz, now()) order by m.at limit $3::int8) m)
delete from punctual_limit_wakeups where ctid = any (array(select place from due)) returning queue, key;

-- name: end_leases
-- Ends the leases of a worker now, except those of executions that are being settled. In: the time (or null), the worker. Rows changed: the
-- count. Reads the whole table, which is as small as the fleet's concurrency.
update punctual_running r set lease_until = coalesce($1::timestamptz, now()) where r.ctid = any (array(
    select ctid from punctual_running where worker_id = $2::uuid and lease_until > coalesce($1::timestamptz, now()) for update skip locked));

-- name: enqueue
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue alike
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue alike with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from new_jobs where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from new_jobs where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from new_jobs where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from new_jobs, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from new_jobs
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from new_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from new_jobs where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from new_jobs where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue undispatched
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue undispatched alike
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue undispatched alike with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from new_jobs where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from new_jobs where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from new_jobs where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from new_jobs, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from new_jobs
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from new_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from new_jobs where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from new_jobs where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue undispatched with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from new_jobs where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from new_jobs where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from new_jobs where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from new_jobs, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from new_jobs
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from new_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from new_jobs where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from new_jobs where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs ),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from new_jobs where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from new_jobs where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from new_jobs where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from new_jobs where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from new_jobs where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from new_jobs, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from new_jobs
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from new_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from new_jobs where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from new_jobs where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id, created_at from new_jobs limit 1;

-- name: enqueue_unknown
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown alike
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown alike with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from stored where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from stored where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from stored where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from stored, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from stored
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from stored where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from stored where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from stored where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown undispatched
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown undispatched alike
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown undispatched alike with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue if most columns are the same for all: unnesting an array costs as much as storing a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from stored where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from stored where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from stored where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from stored, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from stored
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from stored where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from stored where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from stored where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown undispatched with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from stored where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from stored where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from stored where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from stored, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from stored
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from stored where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from stored where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from stored where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_unknown with part
-- Stores jobs, the first events of those that are not simply queued, and the rows that claims read. Fails if an id exists, or skips it.
-- In: the time (or null), then one array per column. Out: the new ids and when they were stored; only one row, unless ids may be skipped.
with new_jobs as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)) y),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from new_jobs on conflict do nothing returning *),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from stored where status = 'queued'),
first_events as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from stored where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from stored where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from stored where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from stored where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from stored, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from stored
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from stored where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from stored where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from stored where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from stored group by lane, status)
select id, created_at from stored;

-- name: enqueue_waiting
-- Stores jobs that wait for other jobs, with their first events. Fails if an id exists.
-- In: the time (or null), then one array per column, the number of parents that each waits for, and whether another parent has failed.
with new_jobs as materialized (
    select u.*, coalesce($1::timestamptz, now()) as created_at, 'waiting' as status,
        coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
    from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
            $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[], $19::int4[], $20::bool[])
            as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
                  correlation_id, workflow_id, keep_for_ms, ephemeral, lane, waiting_on, any_failed)),
stored as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow, waiting_on)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null, waiting_on
    from new_jobs),
waiting as (
    insert into punctual_waiting (id, run_at, scheduled_at, since, lane, waiting_on, any_failed)
    select id, run_at, scheduled_at, created_at, lane, waiting_on, any_failed from new_jobs),
first_events as (insert into punctual_events (job_id, n, at, status) select id, 1, created_at, status from new_jobs),
-- The part of enqueue for what few jobs have: a later run_at, labels, a concurrency key, a user, deletion at restart.
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from new_jobs where status = 'scheduled'),
labels as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from new_jobs where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from new_jobs where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from new_jobs, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from new_jobs
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from new_jobs where status = 'queued' and options::json ->> 'concurrency_key' is not null),
ephemeral as (insert into punctual_ephemeral (id, created_at) select id, created_at from new_jobs where ephemeral),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from new_jobs where user_id is not null group by user_id, name),counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from new_jobs group by lane, status)
select id from new_jobs limit 0;

-- name: ephemeral
-- Ephemeral jobs from before a time that are not running. In: the time, the limit. Reads the whole table, which is small.
select e.id from punctual_ephemeral e
where e.created_at < $1::timestamptz and not exists (select from punctual_running r where r.id = e.id) order by e.id limit $2::int8;

-- name: events
-- The stored events of jobs within one partition. In: ids, for each the time of its last event there.
-- Index: punctual_events_final, one time after the other; lateral, or the server would search for a job at all times at once.
with recursive history (job_id, at) as (
    select * from unnest($1::uuid[], $2::timestamptz[])
    union
    select h.job_id, e.previous_at from history h cross join lateral (
        select e.previous_at from {events} e where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = h.at and e.job_id = h.job_id offset 0) e
    where e.previous_at is not null)
select e.n, e.at, e.status, e.run, e.actor, e.detail, e.attempt, e.outcome, e.worker_id, e.started_at, e.error, e.previous_at,
    e.job_id
from history h cross join lateral (select * from {events} e where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = h.at and e.job_id = h.job_id offset 0) e
order by e.job_id, e.n;

-- name: expirable
-- Finished jobs of one status whose retention has ended, oldest first, except those with a retention of their own. In: cutoff, the limit,
-- the earliest end, the end to stop before, the number of the status. Index: a range of punctual_events_final; then primary keys.
select e.job_id from punctual_events e
cross join lateral (
    select keep_for_ms from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(e.job_id) and j.id = e.job_id limit 1) j
where e.final = $5::int2 and e.at <= $1::timestamptz and e.at >= $3::timestamptz
    and e.at < $4::timestamptz and j.keep_for_ms is null
order by e.at, e.job_id limit $2::int8;

-- name: expirable_by_job
-- Finished jobs whose own retention has ended. In: the time, the limit. Index: the head of the primary key.
select id from punctual_expiries where expires_at <= $1::timestamptz order by expires_at, id limit $2::int8;

-- name: expired_leases
-- Executions whose lease has expired, earliest first, except those that are being settled.
-- In: the time (or null), the limit, the time before which no lease is expected to end. Out: id, whether its worker has confirmed that its
-- handler is about to start, run, worker. Index: punctual_running_lease.
select id, confirmed, run, worker_id from punctual_running where lease_until <= coalesce($1::timestamptz, now()) and lease_until >= $3::timestamptz order by lease_until, id limit $2::int8 for update skip locked;

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
    update punctual_running r set lease_until = greatest(r.lease_until, coalesce($1::timestamptz, now()) + $5::int8 * interval '1 microsecond')
    where r.ctid = any (array(select place from held where lease_until > coalesce($1::timestamptz, now()))))
select given.id, given.run, (select set_config('synchronous_commit', 'off', true)) from given
cross join lateral (
    select * from punctual_running r where r.id = given.id and r.run = given.run and r.worker_id = $4::uuid limit 1) r
where r.lease_until > coalesce($1::timestamptz, now()) or given.id <> all (array(select id from held));

-- name: extend_lock
-- Extends a lock. In: name, owner, the time (or null), the lease. Rows changed: 1 if it was held.
update punctual_locks set expires_at = coalesce($3::timestamptz, now()) + $4::int8 * interval '1 microsecond'
where name = $1::text and owner = $2::text and expires_at > coalesce($3::timestamptz, now());

-- name: finish alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends, if they are not recorded yet: the first ones of jobs that have not changed since their enqueue.
-- Additional parameters: lanes, run_ats, the starts.
    delete from punctual_ready r
    using unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[])
        as s (id, scheduled_at, run, result, lane, run_at, started_at)
    -- The lane is not compared by plain equality, for the same reason as in begin.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id
        and r.run = 0 and r.events = 1 and not r.flow
    returning r.id, s.scheduled_at, s.run, r.attempt + 1 as attempt, $6::uuid as worker_id, greatest(s.started_at, r.queued_at) as started_at, r.queued_at, r.events + 1 as events,
        r.lane, r.keep_for_ms, r.user_id, r.flow, null::text as limit_key, s.result, r.run_at),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from ended),
updated as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - $11::bool::int4, run = ended.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce($14::text, j.error),
        events = ended.events + 1 + ($13::text is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('queued', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4),
lateness as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness',
        width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]), count(*)
    from ended group by 1, 2, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: flow_cancel
-- Cancels waiting jobs. In: the time (or null), ids, the reasons. Index: primary keys.
with deleted_waiting as (
    delete from punctual_waiting w using unnest($2::uuid[], $3::text[]) u (id, reason) where w.id = any (array[u.id])
    returning w.*, u.reason),
updated_jobs as (
    update {jobs} j set status = 'cancelled', updated_at = coalesce($1::timestamptz, now()), finished_at = coalesce($1::timestamptz, now()), events = j.events + 1, waiting_on = deleted_waiting.waiting_on
    from deleted_waiting where j.scheduled_at = deleted_waiting.scheduled_at and j.id = deleted_waiting.id
    returning j.id, j.lane, j.name, j.unique_key, j.workflow_id, j.keep_for_ms, j.user_id, j.events, deleted_waiting.since, deleted_waiting.reason),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, final, status, detail)
    select id, events, coalesce($1::timestamptz, now()), since, lane, 2, 'cancelled', reason from updated_jobs),
deleted_keys as (delete from punctual_keys k using updated_jobs where updated_jobs.unique_key is not null and k.job_id = updated_jobs.id),
inserted_expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from updated_jobs where keep_for_ms is not null),
inserted_ends_pending as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, coalesce($1::timestamptz, now()), 0, 0, count(*) from updated_jobs
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = updated_jobs.id) group by workflow_id),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.sign * count(*) from updated_jobs, (values ('waiting', -1), ('cancelled', 1)) s (status, sign) group by lane, s.status, s.sign),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from updated_jobs where user_id is not null group by user_id, name)
select 1;

-- name: flow_hold
-- Locks waiting jobs, in the order of ids. In: ids. Index: primary key.
select w.id from unnest($1::uuid[]) u (id)
cross join lateral (select id from punctual_waiting w where w.id = u.id for update) w;

-- name: flow_meet
-- Records that parents have ended. In: parents, children, whether each parent succeeded. Index: primary key.
update punctual_dependencies d set succeeded = u.succeeded
from unnest($1::uuid[], $2::uuid[], $3::bool[]) u (parent, child, succeeded) where d.parent = u.parent and d.child = u.child;

-- name: flow_pending
-- The jobs that wait for some jobs. In: ids. Out: parent, child, what the child does if the parent fails, the number of parents that it
-- waits for, and whether another parent has failed. Index: primary keys.
select d.parent, d.child, d.policy, w.waiting_on, w.any_failed from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.parent = u.id and d.succeeded is null) d
cross join lateral (select * from punctual_waiting w where w.id = d.child limit 1) w;

-- name: flow_start
-- Makes waiting jobs queued or scheduled, after their parents have ended. In: the time (or null), ids.
-- Out: the lanes that received jobs, with the earliest run_at in each. Index: primary keys.
with deleted_waiting as (delete from punctual_waiting w using unnest($2::uuid[]) u (id) where w.id = any (array[u.id]) returning w.*),
updated_jobs as (
    update {jobs} j set status = case when j.run_at > coalesce($1::timestamptz, now()) then 'scheduled' else 'queued' end, run_at = greatest(j.run_at, coalesce($1::timestamptz, now())),
        updated_at = coalesce($1::timestamptz, now()), events = j.events + 1, waiting_on = 0
    from deleted_waiting where j.scheduled_at = deleted_waiting.scheduled_at and j.id = deleted_waiting.id
    returning j.id, j.scheduled_at, j.status, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, j.options::json ->> 'concurrency_key' as limit_key, deleted_waiting.since),
inserted_ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, coalesce($1::timestamptz, now()), lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key from updated_jobs where status = 'queued'),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, coalesce($1::timestamptz, now()), limit_key from updated_jobs where status = 'queued' and limit_key is not null),
inserted_due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select run_at, id, scheduled_at, coalesce($1::timestamptz, now()), lane, status from updated_jobs where status = 'scheduled'),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, coalesce($1::timestamptz, now()), since, status from updated_jobs),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, 'waiting', -count(*) from updated_jobs group by lane
    union all
    select lane, status, count(*) from updated_jobs group by lane, status)
select lane, min(run_at) from updated_jobs group by lane;

-- name: flow_wait
-- Updates how many parents jobs wait for. In: ids, the numbers of parents, whether another parent has failed. Index: primary key.
update punctual_waiting w set waiting_on = u.waiting_on, any_failed = u.any_failed
from unnest($1::uuid[], $2::int4[], $3::bool[]) u (id, waiting_on, any_failed) where w.id = u.id;

-- name: forget_dropped_partition
-- Subtracts the jobs of a dropped partition from the counters, and deletes their rows in other tables except labels, events and logs.
-- Keys are locked in their order, as enqueues do. Reads the whole partition.
insert into punctual_counts_new (lane, status, n)
select j.lane, j.status, -count(*) from {jobs} j where {gone} group by j.lane, j.status;
delete from punctual_keys where ctid = any (array(
    select k.ctid from punctual_keys k join {jobs} j on j.unique_key is not null and k.job_id = j.id
    where {gone} order by k.scope collate "C", k.key collate "C" for update of k));
delete from punctual_expiries k using {jobs} j
where j.keep_for_ms is not null and {gone} and k.expires_at = j.finished_at + j.keep_for_ms * interval '1 millisecond' and k.id = j.id;
delete from punctual_deleted d using {jobs} j
where j.status = 'deleted' and {gone} and d.deleted_at = j.updated_at and d.id = j.id;
delete from punctual_ephemeral e using {jobs} j where j.ephemeral and {gone} and e.id = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.parent = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.child = j.id;
delete from punctual_nodes n using {jobs} j where {gone} and n.job_id = j.id;;

-- name: heads
-- The keys of lanes that have a job to start, in the order of their heads. In: lanes, the limit for each. Out: lane, queue, key, turn.
-- Index: the head of a range of the primary key for each.
select k.lane, h.queue, h.key, h.turn from unnest($1::int4[]) k (lane) cross join lateral (
    select h.queue, h.key, h.turn from punctual_limit_heads h where h.lane = k.lane order by h.turn, h.run_at, h.id limit $2::int8) h;

-- name: heartbeat
-- Registers a worker, or records its heartbeat. A loss of power may undo it. The time may be null.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
values ($1::uuid, $2::text, $3::int8, array(select json_array_elements_text($4::text::json)),
    array(select json_array_elements_text($5::text::json)), $6::int8, $7::int8, coalesce($8::timestamptz, now()),
    coalesce($8::timestamptz, now()), $9::uuid)
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at
returning (select set_config('synchronous_commit', 'off', true));

-- name: held_leases
-- Which executions a worker holds. In: ids, the worker. Out: id, run. Index: primary key.
select r.id, r.run from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id limit 1) r where r.worker_id = $2::uuid;

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
group by u.i;

-- name: held_of_queues
-- How many jobs of queues are running, including slots occupied by cancelled jobs. In: queues, the time. Out: queue, the count.
-- Reads all running jobs, which are as few as the fleet's concurrency. Index: a range of punctual_occupied_slots_limit_key for each queue.
select h.queue, count(*) from (
    select n.queue from punctual_running r cross join lateral (select queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = any ($1::text[])
    union all
    select s.queue from punctual_occupied_slots s where s.queue = any ($1::text[]) and s.lease_until > $2::timestamptz) h
group by h.queue;

-- name: idempotent_request
-- Stores a request, unless its key exists. In: key, fingerprint, the time (or null), seed. Out: the stored request of this key.
-- If another transaction has just stored the request, the update makes its row visible.
insert into punctual_idempotency as r (key, fingerprint, at, seed)
values ($1::text, $2::bytea, coalesce($3::timestamptz, now()), $4::int8)
on conflict (key) do update set key = r.key
returning fingerprint, at, seed;

-- name: import_parents
-- Marks imported jobs that other jobs or a workflow depend on. In: ids, scheduled_ats. Index: primary keys.
with given as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
updated_jobs as (
    update punctual_jobs j set flow = true from given where j.scheduled_at = given.scheduled_at and j.id = given.id
    returning j.id, j.lane, j.run_at),
updated_ready as (update punctual_ready r set flow = true from updated_jobs where r.lane = updated_jobs.lane and r.run_at = updated_jobs.run_at and r.id = updated_jobs.id)
update punctual_running r set flow = true from updated_jobs where r.id = updated_jobs.id;

-- name: insert_dependencies
-- Stores dependencies, pending or met. In: parents, children, what each child does if its parent fails, whether the parent succeeded (or
-- null).
insert into punctual_dependencies (parent, child, policy, succeeded)
select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bool[]);

-- name: insert_heads
-- Stores the heads of keys that may start a job: the first job of each, by lane. In: queues, keys, turns.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
insert into punctual_limit_heads (lane, turn, run_at, id, queue, key)
select n.lane, u.turn, r.run_at, r.id, u.queue, u.key from unnest($1::text[], $2::text[], $3::int8[]) u (queue, key, turn)
join punctual_lanes n on n.queue = u.queue and n.keyed cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane order by r.run_at, r.id limit 1) r;

-- name: insert_lanes
-- Stores new lanes. In: queues, names, priorities, whether their jobs have keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct queue, name, priority, keyed from unnest($1::text[], $2::text[], $3::int2[], $4::bool[]) u (queue, name, priority, keyed)
order by queue, name, priority, keyed
on conflict do nothing;

-- name: insert_logs
-- Stores log lines of existing jobs; lines that exist already (from a write that is retried) are kept.
-- In: ids, scheduled_ats, runs, lines, times, levels, messages. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select u.id, u.run, u.line, u.at, u.level, u.message
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::int4[], $5::timestamptz[], $6::text[], $7::text[])
    u (id, scheduled_at, run, line, at, level, message)
where exists (select from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id)
on conflict do nothing;

-- name: insert_nodes
-- Assigns jobs to workflow nodes. In: workflows, nodes, jobs.
insert into punctual_nodes (workflow, node, job_id) select * from unnest($1::uuid[], $2::text[], $3::uuid[])
on conflict (workflow, node) do update set job_id = excluded.job_id;

-- name: insert_notification
-- Stores a message. In: user, message, job, the time (or null). Out: its id and time.
-- Locks: the row with the last id, until the commit.
with updated_notifications_last as (update punctual_notifications_last set id = id + 1 returning id)
insert into punctual_notifications (id, user_id, message, job_id, created_at)
select id, $1::text, $2::text, $3::uuid, coalesce($4::timestamptz, now()) from updated_notifications_last
returning id, created_at;

-- name: insert_queue_event
-- Adds to the history of a queue. In: queue, now, actor, action.
insert into punctual_queue_events (queue, at, actor, action) values ($1::text, $2::timestamptz, $3::text, $4::text);

-- name: insert_schedule
-- Stores schedules, unless their names exist. In: an array per column. Out: the indexes of those that were stored.
with given as materialized (
    select * from unnest($1::text[], $2::uuid[], $3::text[], $4::bool[], $5::text[], $6::int8[], $7::timestamptz[], $8::timestamptz[],
        $9::uuid[], $10::timestamptz[], $11::timestamptz[], $12::text[]) with ordinality
        as x (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
              updated_by, place)),
-- In the order of their names (lock order), because several transactions may save the same ones.
inserted_schedules as (
    insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
        updated_at, updated_by)
    select name, id, definition::json, enabled, problem, revision + 1, last_run_at, next_run_at, last_job, created_at, updated_at,
        updated_by
    from given order by name on conflict (name) do nothing returning id)
select place - 1 from given where id = any (array(select id from inserted_schedules));

-- name: insert_schedule_event
-- Adds to the histories of schedules. In: arrays of their names, now, actors, actions.
insert into punctual_schedule_events (schedule, at, actor, action)
select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[]);

-- name: insert_token
-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at)
values ($1::uuid, $2::text, array(select json_array_elements_text($3::text::json)), $4::bytea, $5::uuid, $6::text, $7::timestamptz,
    $8::timestamptz);

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
select at from given;

-- name: insert_workflow
-- Stores a workflow. In: the time (or null), id, name, the submitter, the number of jobs.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total)
values ($2::uuid, $3::text, $4::text, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), $5::int4);

-- name: job
-- A job. In: id, scheduled_at. Index: the whole primary key of one partition, then that of punctual_running.
select j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at from {jobs} j left join punctual_running r on r.id = j.id where j.scheduled_at = $2::timestamptz and j.id = $1::uuid;

-- name: job_states
-- The states of jobs. In: ids, scheduled_ats. Index: the whole primary key, then that of punctual_running.
select j.id, case when r.id is null then j.status else 'processing' end, coalesce(r.run, j.run), j.run_at, j.lane, j.finished_at
from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: jobs
-- Jobs, in any order. In: ids, scheduled_ats. Index: as for one.
select j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: keyed_first
-- The first queued jobs of keys. In: numbers of keys, keys, lanes, the limit for each. Out: the number, lane, run_at, id.
-- Index: the head of a range of punctual_ready_limit_key for each.
select u.i, u.lane, r.run_at, r.id from unnest($1::int4[], $2::text[], $3::int4[], $4::int8[]) u (i, key, lane, n) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -u.lane order by r.run_at, r.id limit u.n) r;

-- name: keys_alone
-- Serializes transactions that may change the job that holds a unique key: each change moves its row, and a concurrent transaction would
-- not find it. In: scopes, keys. Locks in the order of the locks' numbers (lock order).
select pg_advisory_xact_lock(hashtext('punctual keys'), k.n) from (
    select distinct hashtext(concat_ws(chr(31), current_schema(), u.scope, u.key)) as n
    from unnest($1::text[], $2::text[]) u (scope, key) order by n) k;

-- name: keys_hold
-- Locks unique keys that jobs may release, in the order given, which is the same in all transactions. In: scopes, keys.
-- Index: primary key.
select k.key from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select key from punctual_keys k where k.scope = u.scope and k.key = u.key for update) k;

-- name: keys_holder
-- Locks a unique key. In: scope, key. Out: the job that holds it, until when it is in force. Index: primary key.
select job_id, expires_at from punctual_keys where scope = $1::text and key = $2::text for update;

-- name: keys_holders
-- The jobs that hold unique keys. In: scopes, keys. Index: primary key.
select k.job_id from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select job_id from punctual_keys k where k.scope = u.scope and k.key = u.key limit 1) k;

-- name: keys_of
-- The unique keys of jobs. In: ids. Out: scope, key. Index: punctual_keys_job.
select k.scope, k.key from unnest($1::uuid[]) u (id)
cross join lateral (select scope, key from punctual_keys k where k.job_id = u.id) k;

-- name: keys_pass_on
-- Transfers unique keys, which are locked, from jobs that no longer block them to other jobs. In: as keys_take. Index: primary key.
update punctual_keys k set job_id = u.job_id, expires_at = coalesce($1::timestamptz, now()) + u.period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
where k.scope = u.scope and k.key = u.key;

-- name: keys_retake
-- Takes a unique key for a job that is to run again: a key that is free, or a locked one that another job passes on. In: scope, key, job,
-- expires_at, the other job. Rows changed: 1, or 0 if the key was free and has been taken meanwhile. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at) values ($1::text, $2::text, $3::uuid, $4::timestamptz)
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at where k.job_id = $5::uuid;

-- name: keys_take
-- Takes unique keys for jobs, in the order given, which is the same in all transactions (lock order).
-- In: the time (or null), scopes, keys, jobs, for how many microseconds each key is in force. Out: scope, key, the job that holds it now,
-- until when it is in force, and the time. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at)
select scope, key, job_id, coalesce($1::timestamptz, now()) + period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
on conflict (scope, key) do update set job_id = k.job_id
returning k.scope, k.key, k.job_id, k.expires_at, coalesce($1::timestamptz, now());

-- name: known_jobs
-- Which of some ids exist. In: ids, scheduled_ats. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: lanes
-- All lanes that were ever in use. Reads the whole table: one row for each queue, name and priority, without and with keys.
select lane, queue, name, priority, keyed from punctual_lanes;

-- name: last_notification
-- The id of the last message that was ever stored.
select id from punctual_notifications_last;

-- name: leases_of
-- The executions that a worker holds. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, the limit. Out: id, whether its worker has confirmed that its handler is about to start, run, worker.
select id, confirmed, run, worker_id from punctual_running where worker_id = $1::uuid order by id limit $2::int8;

-- name: limits_begin
-- In: the time (or null). Out: the current time, and the sum of the queues' revisions. The transaction may have waited since it began, and
-- starts must not be counted at an earlier time than their own.
select coalesce($1::timestamptz, clock_timestamp()), ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues));

-- name: limits_lock
-- Locks the limits of queues for a claim. In: queues. Out: those that were not locked already.
select q.queue from unnest($1::text[]) q (queue)
where pg_try_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext(q.queue));

-- name: limits_wait
-- Waits until no claim holds the lock on the limits of a queue, and takes it. In: the queue.
select pg_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext($1::text));

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
    select r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id) order by r.run_at, r.id limit 1) r;

-- name: list_deleted
-- Deleted jobs, last ended first. In: the (finished_at, id) to start before, the least finished_at, the limit.
-- Index: a range of punctual_deleted_finished, backwards.
select d.finished_at, d.id, null::int4, 'deleted' from punctual_deleted d
where (d.finished_at, d.id) < ($1::timestamptz, $2::uuid) and d.finished_at >= $3::timestamptz
order by d.finished_at desc, d.id desc limit $4::int8;

-- name: list_details
-- The columns that lists filter by. In: ids, scheduled_ats. Index: the whole primary key, then that of punctual_running.
select j.id, case when r.id is null then j.status else 'processing' end, j.queue, j.name, j.user_id, j.correlation_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: list_due
-- Scheduled and retrying jobs, earliest run_at first. In: the (run_at, id) to start after, the run_at to end before, the limit.
-- Index: a range of the primary key.
select d.run_at, d.id, d.lane, d.status from punctual_due d
where (d.run_at, d.id) > ($1::timestamptz, $2::uuid) and d.run_at < $3::timestamptz
order by d.run_at, d.id limit $4::int8;

-- name: list_ended
-- Finished jobs of one status, last ended first. In: the (at, id) to start before, the least at, the limit, the number of the status.
-- Index: a range of punctual_events_final, backwards.
select e.at, e.job_id, e.lane, e.status from punctual_events e
where e.final = $5::int2 and e.at <= $1::timestamptz and (e.at, e.job_id) < ($1::timestamptz, $2::uuid)
    and e.at >= $3::timestamptz
order by e.at desc, e.job_id desc limit $4::int8;

-- name: list_label
-- As list_newest, for one user, correlation id or tag. In: as list_newest, kind, value. Index: primary key, backwards.
select l.scheduled_at, l.id, null::int4, null::text from punctual_labels l
where l.kind = $5::text and l.value = $6::text and l.scheduled_at <= $1::timestamptz
    and (l.scheduled_at, l.id) < ($1::timestamptz, $2::uuid) and l.scheduled_at >= $3::timestamptz
order by l.scheduled_at desc, l.id desc limit $4::int8;

-- name: list_lane
-- Queued jobs of one lane, earliest run_at first. In: as list_due, the lane. Index: a range of the primary key.
select r.run_at, r.id, r.lane, 'queued' from punctual_ready r
where r.lane = $5::int4 and (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8;

-- name: list_lanes
-- The same for the jobs of some lanes. In: as above, the lanes. Index: a range of punctual_jobs_lane for each, backwards.
select j.scheduled_at, j.id, j.lane, null::text
from unnest($5::int4[]) u (lane)
cross join lateral (
    select * from punctual_jobs j
    where j.lane = u.lane and j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid)
        and j.scheduled_at >= $3::timestamptz
    order by j.scheduled_at desc, j.id desc limit $4::int8) j
order by j.scheduled_at desc, j.id desc limit $4::int8;

-- name: list_newest
-- Jobs by scheduled_at, latest first. In: the (scheduled_at, id) to start before, the least scheduled_at, the limit.
-- Out: scheduled_at, id, lane, status (or null if it is not known here). Index: primary keys of the partitions, backwards.
select j.scheduled_at, j.id, j.lane, null::text from punctual_jobs j
where j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid) and j.scheduled_at >= $3::timestamptz
order by j.scheduled_at desc, j.id desc limit $4::int8;

-- name: list_running
-- Running jobs, earliest run_at first. In: as above. Reads and sorts the whole table, which is as small as the fleet's concurrency.
select r.run_at, r.id, r.lane, 'processing' from punctual_running r
where (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8;

-- name: list_waiting
-- Waiting jobs, earliest possible start first. In: as above. Index: a range of punctual_waiting_time.
select w.run_at, w.id, w.lane, 'waiting' from punctual_waiting w
where (w.run_at, w.id) > ($1::timestamptz, $2::uuid) and w.run_at < $3::timestamptz
order by w.run_at, w.id limit $4::int8;

-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: name, owner, the time (or null), the lease. Out: its token and end, or no row.
insert into punctual_locks as l (name, owner, token, expires_at)
values ($1::text, $2::text, 1, coalesce($3::timestamptz, now()) + $4::int8 * interval '1 microsecond')
on conflict (name) do update set owner = excluded.owner, token = l.token + 1, expires_at = excluded.expires_at
where l.owner is null or l.owner = excluded.owner or l.expires_at <= coalesce($3::timestamptz, now())
returning token, expires_at;

-- name: locks
-- All held locks. In: the time (or null).
select name, owner, token, expires_at from punctual_locks
where owner is not null and expires_at > coalesce($1::timestamptz, now()) order by name;

-- name: logs
-- The log of a job, oldest line first. In: id, the earliest time, the limit. Index: primary key of the partitions since then.
select run, at, level, message from punctual_logs
where job_id = $1::uuid and at >= $2::timestamptz order by run, line limit $3::int8;

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
select (select count(*) from updated_ready) + (select count(*) from updated_due);

-- name: mark_parents
-- Marks jobs that other jobs or a workflow depend on. Their rows are locked. In: ids, scheduled_ats, lanes, run_ats. Index: primary keys.
with parents as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::timestamptz[]) u (id, scheduled_at, lane, run_at)),
updated_jobs as (update punctual_jobs j set flow = true from parents where j.scheduled_at = parents.scheduled_at and j.id = parents.id and not j.flow),
updated_ready as (update punctual_ready r set flow = true from parents where r.lane = parents.lane and r.run_at = parents.run_at and r.id = parents.id and not r.flow)
update punctual_running r set flow = true from parents where r.id = any (array[parents.id]) and not r.flow;

-- name: move_late_starts
-- Moves starts that are counted at a time after now, in intervals of a rate that has changed since, to now. In: the time (or null), the
-- queue. Index: all rows of the queue.
with deleted_limit_starts as (delete from punctual_limit_starts where queue = $2::text and at > coalesce($1::timestamptz, now()) returning key, n)
insert into punctual_limit_starts as s (queue, key, at, n) select $2::text, key, coalesce($1::timestamptz, now()), sum(n) from deleted_limit_starts group by key
on conflict (queue, key, at) do update set n = s.n + excluded.n;

-- name: next_due
-- When the next job is due. In: the time before which no job is expected. Index: the head of the primary key.
select run_at from punctual_due where run_at >= $1::timestamptz order by run_at limit 1;

-- name: nodes
-- The nodes of a workflow. In: id. Out: node, job. Index: primary key.
select node, job_id from punctual_nodes where workflow = $1::uuid order by node;

-- name: nodes_former
-- The jobs of workflow nodes that other jobs are to take over, with their statuses. Locks the nodes, in the order given, which is the same
-- in all transactions. In: workflows, nodes. Index: primary keys.
select n.workflow, n.node, n.job_id, j.workflow_id is not null, j.status from unnest($1::uuid[], $2::text[]) u (workflow, node)
cross join lateral (select * from punctual_nodes n where n.workflow = u.workflow and n.node = u.node for update) n
left join lateral (
    select * from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(n.job_id) and j.id = n.job_id limit 1) j on true;

-- name: notifications
-- Messages after one, oldest first. In: its id, the limit. Index: the primary key.
select id, user_id, message, job_id, created_at from punctual_notifications where id > $1::int8 order by id limit $2::int8;

-- name: notifications_of_user
-- Messages after one to a user and to all users, oldest first. In: user, its id, the limit. Index: two ranges of
-- punctual_notifications_user, merged.
select id, user_id, message, job_id, created_at from (
    (select * from punctual_notifications where user_id = $1::text and id > $2::int8 order by id limit $3::int8)
    union all
    (select * from punctual_notifications where user_id is null and id > $2::int8 order by id limit $3::int8)) n
order by id limit $3::int8;

-- name: parents_of
-- The parents of jobs, pending or ended. In: ids. Out: child, parent. Index: punctual_dependencies_child.
select d.child, d.parent from unnest($1::uuid[]) u (id)
cross join lateral (select child, parent from punctual_dependencies d where d.child = u.id) d;

-- name: pending
-- Unfinished jobs by user and name. Reads two small tables whole: one row for each user and name that has any.
select user_id, name, sum(n)::int8
from (select * from punctual_pending union all select * from punctual_pending_new) p
group by user_id, name having sum(n) > 0;

-- name: plain_first
-- The first queued jobs of lanes without keys. In: lanes, for each the run_at and the id before which no job is expected, the limit for
-- each. Out: lane, run_at, id. Index: the head of a range of the primary key for each.
select k.lane, r.run_at, r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) k (lane, low, low_id) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
    order by r.run_at, r.id limit $4::int8) r;

-- name: promote
-- Makes scheduled and retrying jobs queued that are due, earliest run_at first.
-- In: the time (or null), the time before which no job is expected, the limit, the jobs whose options are damaged.
-- Out: the lanes that received jobs, with the earliest run_at in each, and counts. Index: the head of the primary key.
with places as materialized (
    select due.ctid as place from punctual_due due where due.run_at >= $2::timestamptz and due.run_at <= coalesce($1::timestamptz, now())
    order by due.run_at, due.id limit $3::int8 for update skip locked),
due as (delete from punctual_due where ctid = any (array(select place from places)) returning *),
jobs as (
    update punctual_jobs jobs set status = 'queued', updated_at = coalesce($1::timestamptz, now()), events = jobs.events + 1
    from due where jobs.scheduled_at = due.scheduled_at and jobs.id = due.id
    returning jobs.id, jobs.lane, jobs.run_at, jobs.attempt, jobs.run, jobs.events, jobs.keep_for_ms, jobs.user_id, jobs.flow, jobs.queue, case when jobs.id = any ($4::uuid[]) then null else jobs.options::json ->> 'concurrency_key' end as limit_key, due.status as was, due.since, due.dispatched),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key, dispatched)
    select run_at, id, coalesce($1::timestamptz, now()), lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key,
        -- The dispatcher was informed of a job shortly before its run_at, unless jobs became due faster than it was informed.
        dispatched and coalesce(run_at <= (select due_until from punctual_dispatch), not exists (select from punctual_dispatch_queues))
    from jobs),
wakeups as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, coalesce($1::timestamptz, now()), limit_key from jobs where limit_key is not null),
queued_events as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, coalesce($1::timestamptz, now()), since, 'queued' from jobs),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from jobs group by lane, was
    union all
    select lane, 'queued', count(*) from jobs group by lane)
select lane, min(run_at) as run_at, count(*) as n, (select set_config('synchronous_commit', 'off', true)) as unused from jobs group by lane;

-- name: prune
-- Deletes old logs, counters, workers and workflows, and clears the columns of old events that describe executions.
-- In: cutoffs of executions and logs, of counters, of workers; the limit; the earliest time of an event to clear; the greatest workflow id
-- of the cutoff. Out: the count, and the time of the last cleared event. Index: a range of punctual_events_final for each value of final.
with old_events as materialized (
    select s.* from generate_series(0, 3) f cross join lateral (
        select e.final, e.at, e.job_id, e.n from punctual_events e
        where e.final = f and e.at >= $5::timestamptz and e.at <= $1::timestamptz and e.attempt is not null
        order by e.at limit $4::int8) s
    order by s.at limit $4::int8),
updated_events as (
    update punctual_events e set attempt = null, outcome = null, worker_id = null, error = null
    from old_events where e.final = old_events.final and e.at = old_events.at and e.job_id = old_events.job_id and e.n = old_events.n returning 1),
deleted_logs as (
    delete from punctual_logs where (job_id, run, line, at) in (
        select job_id, run, line, at from punctual_logs where at <= $1::timestamptz limit $4::int8) returning 1),
deleted_rollups as (delete from punctual_rollups where hour < $2::timestamptz returning 1),
deleted_workers as (delete from punctual_workers where seen_at <= $3::timestamptz returning 1),
deleted_workflows as (
    delete from punctual_workflows where id in (
        select w.id from punctual_workflows w
        where w.id <= $6::uuid and w.updated_at <= $1::timestamptz and not exists (select from punctual_nodes n where n.workflow = w.id)
            and not exists (select from punctual_ends_pending e where e.workflow = w.id)
        limit $4::int8) returning 1)
select (select count(*) from updated_events) + (select count(*) from deleted_logs) + (select count(*) from deleted_rollups) + (select count(*) from deleted_workers) + (select count(*) from deleted_workflows), (select max(at) from old_events);

-- name: prune_idempotent_requests
-- Deletes old requests. In: the cutoff, the limit. Index: punctual_idempotency_at.
delete from punctual_idempotency where key in (select key from punctual_idempotency where at < $1::timestamptz order by at limit $2::int8);

-- name: prune_late_commits
-- Deletes old late commits. In: the cutoff. Index: punctual_late_commits_written.
delete from punctual_late_commits where written < $1::timestamptz;

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
    select t.queue, t.key from punctual_limit_fairness t where not (t.queue = any ($4::text[])) limit $1::int8);

-- name: prune_notifications
-- Deletes old messages among the oldest ones. In: the cutoff, the limit. Ids are in the order of time. Index: the primary key.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit $2::int8) and created_at < $1::timestamptz;

-- name: prune_tokens
-- Deletes expired sessions and tokens, except the last token created: while one exists, tokens are required. In: now. The table is small.
delete from punctual_tokens where expires_at <= $1::timestamptz and (
    session_of is not null or id <> (select t.id from punctual_tokens t where t.session_of is null order by t.id desc limit 1)
);

-- name: purgeable
-- Jobs that were deleted before a cutoff, oldest deletion first. In: cutoff, the limit. Index: the head of the primary key.
select id from punctual_deleted where deleted_at <= $1::timestamptz order by deleted_at, id limit $2::int8;

-- name: queue_events
-- The history of a queue, latest first. In: queue, the limit. Index: punctual_queue_events_queue, backwards.
select at, actor, action from punctual_queue_events where queue = $1::text order by id desc limit $2::int8;

-- name: queued_in_lane
-- Jobs of a lane after a position that were queued before a time. In: lane, run_at and id of the position, the limit, the time. Out:
-- run_at, id. Index: a range of the primary key.
select run_at, id from punctual_ready
where lane = $1::int4 and (run_at, id) > ($2::timestamptz, $3::uuid) and queued_at < $5::timestamptz
order by run_at, id limit $4::int8;

-- name: queues
-- The settings of queues, by name; and apart from them, whether a queue is paused, and whether it may be limited. Reads the whole table,
-- which is small.
select name, settings, revision, updated_at, updated_by, paused, true from punctual_queues order by name;

-- name: relatives
-- The columns of jobs that are shown with their workflow or related jobs. In: ids, scheduled_ats. Out: id, name, node, status.
-- Index: the whole primary key, then that of punctual_running.
select j.id, j.name, j.options::json ->> 'node', case when r.id is null then j.status else 'processing' end
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: remove_schedule
-- Deletes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = $1::text;

-- name: remove_sessions
-- Deletes a session, or the sessions of a token. In: its id. The table is small.
delete from punctual_tokens where session_of = $1::uuid or id = $1::uuid and session_of is not null;

-- name: results
-- The results of jobs that have one. In: ids, scheduled_ats. Index: the whole primary key.
select j.id, j.result from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id, j.result from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.result is not null;

-- name: revoke_token
-- Ends a valid token or session. In: its id, now.
update punctual_tokens set expires_at = $2::timestamptz where id = $1::uuid and (expires_at is null or expires_at > $2::timestamptz);

-- name: roll_up_counts
-- Adds pending changes to the counters of jobs.
with deleted_counts as (delete from punctual_counts_new returning *)
insert into punctual_counts as c (lane, status, n)
select lane, status, sum(n) from deleted_counts group by lane, status order by lane, status
on conflict (lane, status) do update set n = c.n + excluded.n;

-- name: roll_up_ends
-- Adds pending ends of jobs to the counters of their workflows.
with deleted_ends_pending as (delete from punctual_ends_pending returning *)
update punctual_workflows w set succeeded = w.succeeded + s.succeeded, dead = w.dead + s.dead, cancelled = w.cancelled + s.cancelled,
    updated_at = greatest(w.updated_at, s.at)
from (
    select workflow, max(at) as at, sum(succeeded)::int4 as succeeded, sum(dead)::int4 as dead, sum(cancelled)::int4 as cancelled
    from deleted_ends_pending group by workflow) s
where w.id = s.workflow;

-- name: roll_up_pending
-- Adds pending changes to the counters of users' unfinished jobs.
with deleted_pending as (delete from punctual_pending_new returning *)
insert into punctual_pending as c (user_id, name, n)
select user_id, name, sum(n) from deleted_pending group by user_id, name order by user_id, name
on conflict (user_id, name) do update set n = c.n + excluded.n;

-- name: roll_up_rollups
-- Adds pending changes to the rollups.
with deleted_rollups as (delete from punctual_rollups_new returning *)
insert into punctual_rollups as c (hour, lane, measure, bucket, n)
select hour, lane, measure, bucket, sum(n) from deleted_rollups group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (hour, lane, measure, bucket) do update set n = c.n + excluded.n;

-- name: rollups
-- Rollups of a range of hours. In: first hour, end. Index: a range of the primary key; and a small table whole.
select l.name, l.queue, t.measure, t.bucket, sum(t.n)::int8 from (
    select * from punctual_rollups where hour >= $1::timestamptz and hour < $2::timestamptz
    union all
    select * from punctual_rollups_new where hour >= $1::timestamptz and hour < $2::timestamptz) t
join punctual_lanes l on l.lane = t.lane
group by l.name, l.queue, t.measure, t.bucket;

-- name: save_queue
-- Saves the settings of a queue, if its revision is the given one. In: name, paused, settings, revision, now, actor.
-- Rows changed: 1, or 0 if another process changed the settings first. Index: primary key.
insert into punctual_queues as q (name, paused, settings, revision, updated_at, updated_by)
select $1::text, $2::bool, $3::text, 1, $5::timestamptz, $6::text
where $4::int8 = 0 or exists (select from punctual_queues where name = $1::text)
on conflict (name) do update set paused = excluded.paused, settings = excluded.settings, revision = q.revision + 1,
    updated_at = excluded.updated_at, updated_by = excluded.updated_by
where q.revision = $4::int8;

-- name: save_turns
-- Stores the turns of keys. In: queues, keys, turns. Index: primary key.
insert into punctual_limit_fairness (queue, key, turn) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (queue, key) do update set turn = excluded.turn;

-- name: schedule
-- One schedule. In: its name. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name = $1::text;

-- name: schedule_events
-- The history of a schedule, latest first. In: its name, the limit. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = $1::text order by id desc limit $2::int8;

-- name: schedules
-- A page of schedules. In: the name to start after, the limit. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > $1::text order by name limit $2::int8;

-- name: set_progress
-- Stores the progress of running jobs. In: ids, scheduled_ats, runs, workers, documents. Index: primary keys.
update punctual_jobs j set progress = u.progress
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::uuid[], $5::text[]) u (id, scheduled_at, run, worker_id, progress)
where j.scheduled_at = u.scheduled_at and j.id = u.id and exists (
    select from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = u.worker_id);

-- name: set_retention
-- Changes how long a finished job is kept. In: id, scheduled_at, the milliseconds after its end before the change (or null), and after it.
-- Index: primary keys.
with updated_jobs as (
    update punctual_jobs set keep_for_ms = $4::int8 where scheduled_at = $2::timestamptz and id = $1::uuid returning id, finished_at),
deleted_expiries as (delete from punctual_expiries k using updated_jobs where k.expires_at = updated_jobs.finished_at + $3::int8 * interval '1 millisecond' and k.id = updated_jobs.id)
insert into punctual_expiries (expires_at, id) select finished_at + $4::int8 * interval '1 millisecond', id from updated_jobs;

-- name: settle
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when ended.second is null then case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        ended.first, ended.attempt_status, ended.error
    from ended),
updated as (
    update {jobs} j set status = ended.status, run_at = case when ended.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - ended.gives_back::int4, run = ended.run, crash_count = j.crash_count + (ended.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when ended.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce(ended.error, j.error),
        events = ended.events + 1 + (ended.second is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and ended.status in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, ended.status as status, ended.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle if all executions ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from ended),
updated as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - $11::bool::int4, run = ended.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce($14::text, j.error),
        events = ended.events + 1 + ($13::text is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle alike with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle if all executions ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from ended),
updated as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - $11::bool::int4, run = ended.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce($14::text, j.error),
        events = ended.events + 1 + ($13::text is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
-- The part of settle for executions that do not end their job at once: the job runs again, or ends with a second event.
second_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end, $13::text from ended where $13::text is not null),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - $11::bool::int4, run,
        events + 1 + ($13::text is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from ended where $9::text = 'queued'),
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, $9::text
    from ended where $9::text in ('scheduled', 'retrying')),finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when ended.second is null then case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        ended.first, ended.attempt_status, ended.error
    from ended),
updated as (
    update {jobs} j set status = ended.status, run_at = case when ended.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - ended.gives_back::int4, run = ended.run, crash_count = j.crash_count + (ended.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when ended.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce(ended.error, j.error),
        events = ended.events + 1 + (ended.second is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
-- The part of settle for executions that do not end their job at once: the job runs again, or ends with a second event.
second_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end, ended.second from ended where ended.second is not null),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - ended.gives_back::int4, run,
        events + 1 + (ended.second is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from ended where ended.status = 'queued'),
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, ended.status
    from ended where ended.status in ('scheduled', 'retrying')),finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and ended.status in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, ended.status as status, ended.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle_flow
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when ended.second is null then case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        ended.first, ended.attempt_status, ended.error
    from ended),
updated as (
    update {jobs} j set status = ended.status, run_at = case when ended.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - ended.gives_back::int4, run = ended.run, crash_count = j.crash_count + (ended.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when ended.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce(ended.error, j.error),
        events = ended.events + 1 + (ended.second is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and ended.status in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, ended.status as status, ended.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle_flow alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle if all executions ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from ended),
updated as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - $11::bool::int4, run = ended.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce($14::text, j.error),
        events = ended.events + 1 + ($13::text is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle_flow alike with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle if all executions ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from ended),
updated as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - $11::bool::int4, run = ended.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce($14::text, j.error),
        events = ended.events + 1 + ($13::text is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
-- The part of settle for executions that do not end their job at once: the job runs again, or ends with a second event.
second_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end, $13::text from ended where $13::text is not null),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - $11::bool::int4, run,
        events + 1 + ($13::text is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from ended where $9::text = 'queued'),
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, $9::text
    from ended where $9::text in ('scheduled', 'retrying')),finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: settle_flow with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Jobs that other jobs or a workflow depend on are left out, or included if the caller handles what depends on them.
-- In: the time (or null), then one array per column, in the order of ids (lock order).
-- Out: the number of fences that held, the number of jobs updated; if not all held, the ids, runs and workers of those that did; whether
-- any of them was limited, so that another job may start now. Index: primary keys.
with ended as (-- The executions that settle ends.
    delete from punctual_running r using -- The rows of settle: one array per column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)
    -- Not `r.id = s.id`: while the table is known to be empty, the planner would join by reading it whole, in the order of ids.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error),
wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), ended.limit_key from ended join punctual_lanes n on n.lane = ended.lane where ended.limit_key <> ''),
end_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when ended.second is null then case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        ended.first, ended.attempt_status, ended.error
    from ended),
updated as (
    update {jobs} j set status = ended.status, run_at = case when ended.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', j.run_at) end,
        attempt = ended.attempt - ended.gives_back::int4, run = ended.run, crash_count = j.crash_count + (ended.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = ended.started_at, finished_at = case when ended.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(ended.result, j.result), error = coalesce(ended.error, j.error),
        events = ended.events + 1 + (ended.second is not null)::int4
    from ended where j.scheduled_at = ended.scheduled_at and j.id = ended.id returning 1),
-- The part of settle for executions that do not end their job at once: the job runs again, or ends with a second event.
second_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case ended.status when 'succeeded' then 3 when 'dead' then 1 else 0 end, ended.second from ended where ended.second is not null),
ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - ended.gives_back::int4, run,
        events + 1 + (ended.second is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from ended where ended.status = 'queued'),
due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + ended.delay * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, ended.status
    from ended where ended.status in ('scheduled', 'retrying')),finished as materialized (
    select id, lane, keep_for_ms, user_id from ended
    where (keep_for_ms is not null or user_id is not null) and ended.status in ('succeeded', 'dead')),
expiries as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from finished where keep_for_ms is not null),
pending as (
    insert into punctual_pending_new (user_id, name, n)
    select finished.user_id, n.name, -count(*) from finished join punctual_lanes n on n.lane = finished.lane
    where finished.user_id is not null group by finished.user_id, n.name),
durations as materialized (
    select lane, ended.status as status, ended.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from ended group by 1, 2, 3, 4),
counts as (
    insert into punctual_counts_new (lane, status, n)
    select durations.lane, s.status, sum(s.sign * durations.n) from durations cross join lateral (values ('processing', -1), (durations.status, 1)) s (status, sign)
    group by 1, 2),
rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), durations.lane, m.measure, durations.bucket, sum(durations.n)
    from durations cross join lateral (select durations.attempt_status as measure union all select 'died' where durations.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from updated), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from ended) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from ended) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from ended) d;

-- name: slots_occupied
-- The occupied slots of a queue and its keys. In: queue, the time. Index: a range of punctual_occupied_slots_limit_key. Sorts the rows
-- found, which are few.
select job_id, run, worker_id, nullif(limit_key, ''), lease_until from punctual_occupied_slots
where queue = $1::text and lease_until > $2::timestamptz order by job_id, run;

-- name: slots_release
-- Releases the slots that executions of cancelled jobs occupy. In: the time (or null), ids, runs, workers, in the order of ids. Out: the
-- count. Keys are checked now instead of at the end of the lease, unless another slot's lease ends then. Index: primary key,
-- punctual_limit_wakeups_time, punctual_occupied_slots_limit_key.
with deleted_slots as (
    delete from punctual_occupied_slots s using unnest($2::uuid[], $3::int4[], $4::uuid[]) u (id, run, worker_id)
    where s.job_id = any (array[u.id]) and s.run = u.run and s.worker_id = u.worker_id returning s.*),
-- The part that slots_release and slots_release_of share: wake-ups for the keys of the released slots.
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, coalesce($1::timestamptz, now()), limit_key from deleted_slots where limit_key <> ''),
deleted_limit_wakeups as (
    delete from punctual_limit_wakeups w using deleted_slots s
    where w.queue = s.queue and w.at = s.lease_until and w.key = s.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = s.queue and o.limit_key = s.limit_key and o.lease_until = s.lease_until
            and not exists (select from deleted_slots d where d.job_id = o.job_id and d.run = o.run)))
select count(*) from deleted_slots;

-- name: slots_release_of
-- Releases the slots of a worker that is known to be dead. In: the time (or null), the worker. Out: the count.
-- Reads all occupied slots, which are few. Index: as of slots_release.
with deleted_slots as (delete from punctual_occupied_slots s where s.worker_id = $2::uuid returning s.*),
-- The part that slots_release and slots_release_of share: wake-ups for the keys of the released slots.
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, coalesce($1::timestamptz, now()), limit_key from deleted_slots where limit_key <> ''),
deleted_limit_wakeups as (
    delete from punctual_limit_wakeups w using deleted_slots s
    where w.queue = s.queue and w.at = s.lease_until and w.key = s.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = s.queue and o.limit_key = s.limit_key and o.lease_until = s.lease_until
            and not exists (select from deleted_slots d where d.job_id = o.job_id and d.run = o.run)))
select count(*) from deleted_slots;

-- name: stand_in_places
-- Whether a job exists at each of the given positions, in their order. In: lanes, run_ats, ids. Index: primary keys.
select exists (select from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id)
    or exists (select from punctual_due d where d.run_at = u.run_at and d.id = u.id)
from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) with ordinality u (lane, run_at, id, n) order by u.n;

-- name: starts
-- Recent starts under limits. In: queues, keys, the times to start after. Out: the number of a key, time, count. Index: a range of the
-- primary key for each.
select u.i, s.at, s.n from unnest($1::text[], $2::text[], $3::timestamptz[]) with ordinality u (queue, key, horizon, i) cross join lateral (
    select s.at, s.n from punctual_limit_starts s where s.queue = u.queue and s.key = u.key and s.at > u.horizon) s;

-- name: suspects_lanes
-- Adds the lanes of suspects for the lanes of running jobs, if they are missing. In: ids. Out: one row for each new lane. Index: primary
-- keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct l.queue, l.name, l.priority + 16, l.keyed from punctual_running r join punctual_lanes l on l.lane = r.lane
where r.id = any ($1::uuid[]) and l.priority < 16
order by 1, 2, 3, 4
on conflict do nothing
returning lane;

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
select lane, status, count(*) from updated_jobs group by lane, status;

-- name: tokens
-- All tokens, oldest first: their ids begin with their time. The table is small.
select id, name, to_json(roles)::text, hash, session_of, created_by, created_at, expires_at from punctual_tokens order by id;

-- name: turns
-- The turns of keys. In: queues, keys. Out: the number of a key, and its turn, if it has one. Index: primary key.
select u.i, t.turn from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i)
join punctual_limit_fairness t on t.queue = u.queue and t.key = u.key;

-- name: undispatched
-- Jobs that are queued, or will be soon, and are unknown to the dispatcher. In: the latest run_at, the limit. Out: lane, run_at, id.
-- Index: the heads of punctual_ready_undispatched and punctual_due_undispatched.
(select lane, run_at, id from punctual_ready where not dispatched and limit_key is null order by queued_at limit $2::int8)
union all
(select lane, run_at, id from punctual_due where not dispatched and run_at <= $1::timestamptz order by run_at limit $2::int8);

-- name: unlock
-- Releases a lock. In: name, owner, the time (or null). Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = '1970-01-01Z'
where name = $1::text and owner = $2::text and expires_at > coalesce($3::timestamptz, now());

-- name: upcoming
-- The schedules that run next. In: the time and name to start after, the last time, the limit. Index: punctual_schedules_next.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled and next_run_at is not null
    and (next_run_at, name) > ($1::timestamptz, $2::text) and next_run_at <= $3::timestamptz
order by next_run_at, name limit $4::int8;

-- name: update_job
-- Changes a job on behalf of another enqueue. Its row is locked. In: the time (or null), id, scheduled_at, payload (or null), run_at (or
-- null), the time of its last change, the detail of the event, run_at before the change. Index: primary keys.
with updated_jobs as (
    update punctual_jobs j set payload = coalesce($4::text, j.payload), run_at = coalesce($5::timestamptz, j.run_at), updated_at = coalesce($1::timestamptz, now()),
        events = j.events + 1
    where j.scheduled_at = $3::timestamptz and j.id = $2::uuid
    returning j.id, j.lane, j.run_at, j.status, j.events),
updated_ready as (
    update punctual_ready r set payload = null, dispatched = false, queued_at = coalesce($1::timestamptz, now()), events = updated_jobs.events
    from updated_jobs where r.lane = updated_jobs.lane and r.run_at = updated_jobs.run_at and r.id = updated_jobs.id and updated_jobs.status = 'queued'),
updated_due as (
    update punctual_due d set run_at = updated_jobs.run_at, since = coalesce($1::timestamptz, now()), dispatched = false
    from updated_jobs where d.run_at = $8::timestamptz and d.id = updated_jobs.id and updated_jobs.status in ('scheduled', 'retrying')),
updated_waiting as (update punctual_waiting w set since = coalesce($1::timestamptz, now()) from updated_jobs where w.id = updated_jobs.id)
insert into punctual_events (job_id, n, at, previous_at, status, detail)
select id, events, coalesce($1::timestamptz, now()), $6::timestamptz, status, $7::text from updated_jobs;

-- name: update_schedule
-- Updates schedules, if their revisions are unchanged. In: an array per column. Out: the indexes of those that were updated.
-- Index: primary key.
with given as materialized (
    select * from unnest($1::text[], $2::uuid[], $3::text[], $4::bool[], $5::text[], $6::int8[], $7::timestamptz[], $8::timestamptz[],
        $9::uuid[], $10::timestamptz[], $11::timestamptz[], $12::text[]) with ordinality
        as x (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
              updated_by, place)),
-- In the order of their names (lock order), because several transactions may save the same ones.
unchanged as materialized (
    select given.* from punctual_schedules s join given on s.name = given.name and s.id = given.id and s.revision = given.revision
    order by s.name for update of s)
update punctual_schedules s set definition = unchanged.definition::json, enabled = unchanged.enabled, problem = unchanged.problem,
    revision = unchanged.revision + 1, last_run_at = unchanged.last_run_at, next_run_at = unchanged.next_run_at, last_job = unchanged.last_job,
    created_at = unchanged.created_at, updated_at = unchanged.updated_at, updated_by = unchanged.updated_by
from unchanged where s.name = unchanged.name returning unchanged.place - 1;

-- name: wake_queue
-- Adds wakeups for all keys of a queue with queued jobs. In: the time (or null), the queue.
-- Index: each lane's range of punctual_ready, whole.
insert into punctual_limit_wakeups (queue, at, key)
select distinct n.queue, coalesce($1::timestamptz, now()), r.limit_key from punctual_lanes n join punctual_ready r on r.lane = n.lane
where n.queue = $2::text and n.keyed and r.limit_key is not null;

-- name: workers
-- All registered workers.
select id, host, pid, to_json(queues)::text, to_json(names)::text, concurrency, running, started_at, seen_at, registered_by
from punctual_workers order by started_at, id;

-- name: workflow
-- A workflow. In: id. Index: primary key; then punctual_ends_pending, which is small.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from punctual_workflows w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
where w.id = $1::uuid;

-- name: workflows
-- Workflows, latest first. In: the id to start before, the limit. Index: the primary key, backwards; then punctual_ends_pending, which is
-- small.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from (select * from punctual_workflows where id < $1::uuid order by id desc limit $2::int8) w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
order by w.id desc;
