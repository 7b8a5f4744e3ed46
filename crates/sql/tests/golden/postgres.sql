-- Every statement that is sent to PostgreSQL, made from crates/sql/src/postgres/sql by a test; not edited by hand.
-- {jobs} is a partition of punctual_jobs, {ids} and {times} are parameters of the jobs in it.

-- name: beat
-- A worker is there. In: the time (or null), then its columns.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
select $2::uuid, $3::text, $4::int8, $5::text[], $6::text[], $7::int8, $8::int8, t.now, t.now, $9::uuid
from (select coalesce($1::timestamptz, now()) as now) t
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at
returning (select set_config('synchronous_commit', 'off', true));

-- name: begin
-- Records executions that have begun: the first ones of jobs that are as they were when they came.
-- In: the time (or null), lanes, times, ids, when each began, workers, leases. Out: the ids of those that are right. Index: the whole primary key.
with x as (
    delete from punctual_ready r
    using unnest($2::int4[], $3::timestamptz[], $4::uuid[], $5::timestamptz[], $6::uuid[], $7::int8[])
        as s (lane, run_at, id, started_at, worker_id, lease)
    -- The lane not by plain equality: while the table is known to be empty, the server would plan to read it whole for a join. And the others
    -- not like the lane: it would then look only for that in the index.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id and r.run = 0 and r.events = 1
    returning r.*, s.started_at, s.worker_id, s.lease),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, worker_id, started_at + lease * interval '1 microsecond', greatest(started_at, queued_at), queued_at, run_at, run + 1, attempt + 1, events + 1,
        lane, keep_for_ms, user_id, flow
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from g)
select id, (select set_config('synchronous_commit', 'off', true)) from x;

-- name: begin_refused
-- Leaves a line in the log of each job that was started and had been changed before that was recorded: cancelled, replaced, or started by another.
-- Not where the start was recorded before and the answer was lost.
-- In: the time (or null), ids, when each is scheduled for, workers, the beginning of each line. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select s.id, 1, 0, coalesce($1::timestamptz, now()), 'warn',
    s.message || case when r.id is null then j.status else 'processing' end || '), so that this execution does not count'
from unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[]) s (id, scheduled_at, worker_id, message)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = s.scheduled_at and j.id = s.id) j
left join punctual_running r on r.id = s.id
where case when r.id is null then j.run = 0 else r.worker_id <> s.worker_id end
on conflict do nothing;

-- name: change_hold_due
-- Holds waiting jobs' places against promotion. In: run_ats, ids. Index: the whole primary key.
select d.id from unnest($1::timestamptz[], $2::uuid[]) u (run_at, id)
cross join lateral (select id from punctual_due d where d.run_at = u.run_at and d.id = u.id for update) d;

-- name: change_hold_jobs
-- Holds jobs, in the order of ids. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id for update) j;

-- name: change_hold_ready
-- Holds queued jobs' places against claims. In: lanes, run_ats, ids. Index: the whole primary key.
select r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)
cross join lateral (
    select id from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id for update) r;

-- name: change_hold_running
-- Holds the executions of jobs against their settles, in the order of ids. In: ids. Index: primary key.
select r.id from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id for update) r;

-- name: change_leave_due
-- Lets a job wait no longer. In: run_at, id. Rows changed: 1 if it did. Index: the whole primary key.
delete from punctual_due where run_at = $1::timestamptz and id = $2::uuid;

-- name: change_leave_ready
-- Takes a job out of its lane. In: lane, run_at, id. Rows changed: 1 if it was there. Index: the whole primary key.
delete from punctual_ready where lane = $1::int4 and run_at = $2::timestamptz and id = $3::uuid;

-- name: change_save
-- Moves a job from where it stood to where it stands now, with one event. Its place in ready or due has gone already.
-- In: the job's columns before and after, see change.rs. Index: primary keys.
with o as materialized (select $1::uuid as id, $2::timestamptz as scheduled_at, $3::timestamptz as now),
h as (delete from punctual_running r using o where r.id = o.id returning r.*),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', o.now, 'UTC'), h.lane, 'cancelled',
        width_bucket(round(greatest(0, date_part('epoch', o.now - h.started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]), 1
    from h, o),
j as (
    update punctual_jobs j set status = $4::text, run_at = $5::timestamptz, attempt = $6::int4, run = $7::int4, max_attempts = $8::int4,
        updated_at = o.now, waiting_on = $19::int4, started_at = $9::timestamptz, finished_at = $10::timestamptz, events = $11::int4 + 1
    from o where j.scheduled_at = o.scheduled_at and j.id = o.id
    returning j.*),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, updated_at, lane, attempt, run, events, keep_for_ms, user_id, flow, options::json ->> 'concurrency_key' from j where status = 'queued'),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select queue, updated_at, options::json ->> 'concurrency_key' from j
    where options::json ->> 'concurrency_key' is not null and (status = 'queued' or $16::text in ('queued', 'processing'))),
-- If its execution is limited, it keeps its slot until its handler is gone, or its lease ends: then claims look at its key.
s as (
    insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until)
    select h.id, h.run, h.worker_id, j.queue, h.limit_key, h.lease_until from h join j on j.id = h.id
    where h.limit_key is not null and h.lease_until > j.updated_at
    on conflict do nothing returning queue, lease_until, limit_key),
m2 as (insert into punctual_limit_wakeups (queue, at, key) select * from s),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome, actor,
        detail)
    select o.id, $11::int4 + 1, o.now, coalesce(h.queued_at, $12::timestamptz), h.started_at, j.lane, $13::int4, h.attempt,
        h.worker_id, case $4::text when 'cancelled' then 2 else 0 end, $4::text,
        case when h.id is not null then 'cancelled' end, $14::text, $15::text
    from o cross join j left join h on true),
k as (
    delete from punctual_keys k using j
    where $4::text in ('cancelled', 'deleted') and j.unique_key is not null and k.job_id = j.id),
x1 as (
    update punctual_events e set final = 0 from o
    where e.at = $17::timestamptz and e.job_id = o.id and e.final in (1, 2, 3)),
x2 as (
    insert into punctual_deleted (deleted_at, id, finished_at) select updated_at, id, finished_at from j where status = 'deleted'),
w as (delete from punctual_waiting w using o where w.id = o.id),
n as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, o.now, $20::int4, $21::int4, $22::int4 from j, o
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = j.id) and ($20::int4, $21::int4, $22::int4) <> (0, 0, 0)),
k1 as (
    delete from punctual_expiries d using j
    where d.expires_at = $17::timestamptz + j.keep_for_ms * interval '1 millisecond' and d.id = j.id),
k2 as (
    insert into punctual_expiries (expires_at, id)
    select finished_at + keep_for_ms * interval '1 millisecond', id from j
    where status = 'cancelled' and keep_for_ms is not null),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.n from j, (values ($16::text, -1), ($4::text, 1)) s (status, n)),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, $18::int8 from j where user_id is not null and $18::int8 <> 0)
select 1;

-- name: changes
-- What could not be seen at a look before and can be at this one, in the order of time.
-- In: from when on it may bear its time; when the look before was; when this one is; then for both looks how far transactions had come, and
-- which were open; how many. Out: events, as far as they are stored; that executions began, of those under way; that jobs were queued at first, of
-- those that are as they came. Index: punctual_events_final, one range for each end; a range of the jobs' primary key. What is running is
-- read whole.
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
    -- Only starts: a lease that was extended has an earlier one.
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
-- What those select jobs by who follow them. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: changes_stand
-- How far transactions have come: the time, the number before which all have begun, and those that have not ended. Whatever has a lesser number and
-- is not among them has ended, and can be seen by the next statement if it was committed. In: the time (or null).
-- By locks, which are there until the end can be seen by all.
select coalesce($1::timestamptz, now()), pg_snapshot_xmax(pg_current_snapshot())::text::int8,
    array(select l.transactionid::text::int8 from pg_locks l
          where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted);

-- name: children_of
-- Who waits for a job, or waited. In: id, how many. Index: primary key.
select child from punctual_dependencies where parent = $1::uuid order by child limit $2::int8;

-- name: claim chosen
-- Hands queued jobs to a worker: the first ones of all lanes together, by priority, then time, then id.
-- In: the time (or null), the lanes, for each the time and the id before which nothing is expected, how many, the worker, the lease, the
-- time before which no job is expected to be due, how often anything was said of queues as the claim knows, and if there are several lanes
-- the rank of each. Out: one row a job, or one without a job; each with the time of the claim, when the next job is due, and how often
-- anything was said of queues: if the claim did not know, it gets nothing. Index: a range of the primary key for each lane.
with -- The places that claim.sql takes, if they were chosen before: lanes, times and ids of jobs. In besides: the lanes whose queues are limited.
c as materialized (
    select s.place from unnest($2::int4[], $3::timestamptz[], $4::uuid[]) as k (lane, run_at, id) cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = k.lane and r.run_at = k.run_at and r.id = k.id
        limit $5::int8 for update skip locked) s
    where ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8)
,
x as (delete from punctual_ready where ctid = any (array(select place from c)) returning *),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select x.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), x.queued_at), x.queued_at, x.run_at, x.run + 1, x.attempt + 1,
        x.events + 1, x.lane, x.keep_for_ms, x.user_id, x.flow, coalesce(x.limit_key, case when x.lane = any ($10::int4[]) then '' end)
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from g)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    x.id, x.run + 1, x.attempt + 1, x.lane, x.run_at, x.queued_at, x.max_attempts, x.timeout_ms, x.keep_for_ms, x.ephemeral, x.user_id,
    x.correlation_id, x.unique_key, x.workflow_id, x.options, x.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join x on true;

-- name: claim many lanes
-- Hands queued jobs to a worker: the first ones of all lanes together, by priority, then time, then id.
-- In: the time (or null), the lanes, for each the time and the id before which nothing is expected, how many, the worker, the lease, the
-- time before which no job is expected to be due, how often anything was said of queues as the claim knows, and if there are several lanes
-- the rank of each. Out: one row a job, or one without a job; each with the time of the claim, when the next job is due, and how often
-- anything was said of queues: if the claim did not know, it gets nothing. Index: a range of the primary key for each lane.
with -- The places that claim.sql takes, of several lanes.
k as materialized (
    select * from unnest($2::int4[], $3::timestamptz[], $4::uuid[], $10::int4[]) as u (lane, low, low_id, rank)
    where ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8),
-- Which lanes the first jobs stand in, without a lock.
h as materialized (
    select k.lane from k cross join lateral (
        select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
        order by r.run_at, r.id limit $5::int8) s
    order by k.rank, s.run_at, s.id limit $5::int8),
q as materialized (select lane, count(*) as n from h group by lane),
-- So many of each lane, without those that another claim has in hand.
c as materialized (
    select s.place from q cross join lateral (select * from k where k.lane = q.lane limit 1) k cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
        order by r.run_at, r.id limit q.n for update skip locked) s)
,
x as (delete from punctual_ready where ctid = any (array(select place from c)) returning *),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select x.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), x.queued_at), x.queued_at, x.run_at, x.run + 1, x.attempt + 1,
        x.events + 1, x.lane, x.keep_for_ms, x.user_id, x.flow, null
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from g)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    x.id, x.run + 1, x.attempt + 1, x.lane, x.run_at, x.queued_at, x.max_attempts, x.timeout_ms, x.keep_for_ms, x.ephemeral, x.user_id,
    x.correlation_id, x.unique_key, x.workflow_id, x.options, x.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join x on true;

-- name: claim one lane
-- Hands queued jobs to a worker: the first ones of all lanes together, by priority, then time, then id.
-- In: the time (or null), the lanes, for each the time and the id before which nothing is expected, how many, the worker, the lease, the
-- time before which no job is expected to be due, how often anything was said of queues as the claim knows, and if there are several lanes
-- the rank of each. Out: one row a job, or one without a job; each with the time of the claim, when the next job is due, and how often
-- anything was said of queues: if the claim did not know, it gets nothing. Index: a range of the primary key for each lane.
with -- The places that claim.sql takes, if there is only one lane.
c as materialized (
    select r.ctid as place from punctual_ready r
    where r.lane = ($2::int4[])[1] and (r.run_at, r.id) >= (($3::timestamptz[])[1], ($4::uuid[])[1])
        and ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $9::int8
    order by r.run_at, r.id limit $5::int8 for update skip locked)
,
x as (delete from punctual_ready where ctid = any (array(select place from c)) returning *),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow, limit_key)
    -- A job may have been queued since this transaction began.
    select x.id, $6::uuid, coalesce($1::timestamptz, now()) + $7::int8 * interval '1 microsecond', greatest(coalesce($1::timestamptz, now()), x.queued_at), x.queued_at, x.run_at, x.run + 1, x.attempt + 1,
        x.events + 1, x.lane, x.keep_for_ms, x.user_id, x.flow, null
    from x),
g as materialized (
    select lane, width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from x group by 1, 2),
n as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g, (values ('queued', -1), ('processing', 1)) s (status, sign) group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', bucket, n from g)
select coalesce($1::timestamptz, now()), (select d.run_at from punctual_due d where d.run_at >= $8::timestamptz order by d.run_at limit 1) as next_run_at,
    x.id, x.run + 1, x.attempt + 1, x.lane, x.run_at, x.queued_at, x.max_attempts, x.timeout_ms, x.keep_for_ms, x.ephemeral, x.user_id,
    x.correlation_id, x.unique_key, x.workflow_id, x.options, x.payload, ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)), (select set_config('synchronous_commit', 'off', true))
from (select) t left join x on true;

-- name: claim_ahead
-- Hands jobs to a worker that will be due within the next instants, each as of its time, first due first.
-- In: the time (or null), the lanes, how far ahead, how many, the worker, the lease, how often anything was said of queues.
-- Out: as claim.sql, without what only a new job's row knows. Index: a range of the primary key.
with c as materialized (
    select d.ctid as place from punctual_due d
    where d.run_at > coalesce($1::timestamptz, now()) and d.run_at <= coalesce($1::timestamptz, now()) + $3::int8 * interval '1 microsecond' and d.lane = any ($2::int4[])
        and ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues)) = $7::int8
    order by d.run_at, d.id limit $4::int8 for update skip locked),
d as (delete from punctual_due where ctid = any (array(select place from c)) returning *),
j as (
    update punctual_jobs j set status = 'queued', updated_at = d.run_at, events = j.events + 1
    from d where j.scheduled_at = d.scheduled_at and j.id = d.id
    returning j.id, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, d.status as was, d.since),
l as (
    insert into punctual_running (id, worker_id, lease_until, started_at, queued_at, run_at, run, attempt, events, lane, keep_for_ms,
        user_id, flow)
    select id, $5::uuid, run_at + $6::int8 * interval '1 microsecond', run_at, run_at, run_at, run + 1, attempt + 1, events + 1, lane,
        keep_for_ms, user_id, flow
    from j),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, run_at, since, 'queued' from j),
g as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from j group by lane, was
    union all
    select lane, 'processing', count(*) from j group by lane),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness', 0, count(*) from j group by 1, 2)
select coalesce($1::timestamptz, now()), (
        select d.run_at from punctual_due d where d.ctid <> all (array(select place from c)) order by d.run_at limit 1) as next_run_at,
    j.id, j.run + 1, j.attempt + 1, j.lane, j.run_at, (select set_config('synchronous_commit', 'off', true))
from (select) t left join j on true;

-- name: claim_read
-- Claimed jobs for their worker, from the partition that they are in. In: ids, and when each is scheduled for.
-- Index: the whole primary key.
select j.id, j.name, j.queue, j.status, j.priority, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts,
    j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
    j.updated_at, j.started_at, j.finished_at, j.options, j.payload, j.progress, j.result, j.error from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: confirm
-- Records that handlers are about to start, if their leases have not run out. In: the time (or null), ids, runs, the worker.
-- Out: the ids and runs that are held. Durable when it returns. Locks rows in the order of ids, as settles do. Index: primary key.
with held as materialized (
    select r.ctid as place from unnest($2::uuid[], $3::int4[]) wanted (id, run)
    cross join lateral (
        select r.ctid from punctual_running r
        where r.id = wanted.id and r.run = wanted.run and r.worker_id = $4::uuid and r.lease_until > coalesce($1::timestamptz, now()) for update) r)
update punctual_running r set confirmed = true where r.ctid = any (array(select place from held)) returning r.id, r.run;

-- name: counts
-- How many jobs there are. Reads two small tables whole.
select l.queue, l.name, c.status, sum(c.n)::int8
from (select * from punctual_counts union all select * from punctual_counts_new) c join punctual_lanes l on l.lane = c.lane
group by l.queue, l.name, c.status having sum(c.n) > 0;

-- name: dead_by_name
-- How many jobs died in a period and are still dead. In: since, until. Index: a range of punctual_events_dead, and nothing else.
select l.name, sum(d.n)::int8 from (
    select e.lane, count(*) as n from punctual_events e
    where e.final = 1 and e.at >= $1::timestamptz and e.at < $2::timestamptz group by e.lane) d
join punctual_lanes l on l.lane = d.lane
group by l.name order by 2 desc, 1;

-- name: dependencies_add
-- Jobs wait for others, or need not any more. In: parents, children, what each does if its parent fails, how that ended.
insert into punctual_dependencies (parent, child, policy, succeeded)
select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bool[]);

-- name: dependencies_of
-- The jobs that others wait for, or waited for. In: the others. Out: parent, child, what it does if that fails, how it ended.
-- Index: a range of punctual_dependencies_child for each.
select d.parent, d.child, d.policy, d.succeeded from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.child = u.id order by d.parent) d;

-- name: dispatch
-- How much longer the dispatcher hands jobs out, in microseconds; less than nothing since it has not. The time up to which it knows jobs that
-- wait for one, what it knows this store by, for how many microseconds ago somebody missed it, and which run of the server this is.
select (date_part('epoch', greatest(until, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8, due_until, store_id,
    (date_part('epoch', clock_timestamp() - unreachable_at) * 1000000)::int8, (date_part('epoch', pg_postmaster_start_time()) * 1000000)::int8
from punctual_dispatch;

-- name: dispatch_due
-- The dispatcher has been informed of jobs that wait for a time up to this one. In: the time that was so until now (or null), the new one.
update punctual_dispatch set due_until = $2::timestamptz where due_until is not distinct from $1::timestamptz;

-- name: dispatch_give
-- A queue is given to the dispatcher: for the first time, or anew if the epoch is still this one.
-- In: queue, epoch, how long nobody hands out its jobs when it is given anew, in microseconds.
with g as (
    insert into punctual_dispatch_queues as q (queue, epoch, opens_at)
    select $1::text, 1, greatest(clock_timestamp(), d.opens_at) from punctual_dispatch d
    on conflict (queue) do update set epoch = q.epoch + 1, opened_at = null, loaded = false,
        opens_at = clock_timestamp() + $3::int8 * interval '1 microsecond'
    where q.epoch = $2::int8
    returning 1)
update punctual_dispatch set due_until = null where exists (select from g);

-- name: dispatch_give_all
-- Every queue is given to the dispatcher anew.
with g as (
    update punctual_dispatch_queues set epoch = epoch + 1, opens_at = d.opens_at, opened_at = null, loaded = false from punctual_dispatch d)
update punctual_dispatch set due_until = null;

-- name: dispatch_missed
-- A process that claims jobs cannot reach the dispatcher.
update punctual_dispatch set unreachable_at = clock_timestamp();

-- name: dispatch_open
-- Somebody opens a queue, if nobody else has in its epoch. In: queue, epoch. Rows changed: 1 if it was them.
update punctual_dispatch_queues set opened_at = clock_timestamp()
where queue = $1::text and epoch = $2::int8 and opened_at is null and opens_at <= clock_timestamp();

-- name: dispatch_opened
-- The dispatcher knows all jobs of a queue. In: queue, epoch.
update punctual_dispatch_queues set loaded = true where queue = $1::text and epoch = $2::int8;

-- name: dispatch_prolong
-- The dispatcher hands jobs out for longer. In: how much, in microseconds; how long what it handed out last may have been unknown here, if it has
-- not handed out any for a time; whether the caller claims jobs; for how many microseconds others do not prolong after one that does has missed it.
-- Out: whether it has not handed out any for a time; nothing if it was not prolonged.
with f as materialized (
    select d.until < clock_timestamp() as lapsed from punctual_dispatch d
    where $3::bool or coalesce(d.unreachable_at < clock_timestamp() - $4::int8 * interval '1 microsecond', true) for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when f.lapsed then d.until + $2::int8 * interval '1 microsecond' else d.opens_at end
from f returning f.lapsed;

-- name: dispatch_queues
-- The queues that the dispatcher has been given, and for each the microseconds until it opens, and since when it is open.
select queue, epoch, (date_part('epoch', greatest(opens_at, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8,
    (date_part('epoch', clock_timestamp() - opened_at) * 1000000)::int8, loaded
from punctual_dispatch_queues;

-- name: due_between
-- Jobs that wait for their time, from a place to a time. In: time, id, until when, how many, of which lanes. Out: lane, time, id. Index: a range of the primary key.
select lane, run_at, id from punctual_due where (run_at, id) > ($1::timestamptz, $2::uuid) and run_at <= $3::timestamptz and lane = any ($5::int4[])
order by run_at, id limit $4::int8;

-- name: due_options
-- The options of the jobs that are due, longest overdue first, as text: for when one of them is damaged.
-- In: the time (or null), the time before which nothing is expected, how many. Out: id, options. Index: the head of the primary key.
select d.id, j.options from punctual_due d join punctual_jobs j on j.scheduled_at = d.scheduled_at and j.id = d.id
where d.run_at >= $2::timestamptz and d.run_at <= coalesce($1::timestamptz, now()) and j.options is not null order by d.run_at, d.id limit $3::int8;

-- name: end_leases
-- Ends the leases of a worker now, but for what is being settled at this moment. In: the time (or null), the worker. Rows changed: how many.
-- Reads the whole table, which is as small as the fleet's concurrency.
update punctual_running r set lease_until = coalesce($1::timestamptz, now()) where r.ctid = any (array(
    select ctid from punctual_running where worker_id = $2::uuid and lease_until > coalesce($1::timestamptz, now()) for update skip locked));

-- name: ends_add
-- Jobs of workflows have come to an end. In: the time (or null), ids, when each is scheduled for, their statuses. Index: the whole primary key.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
select j.workflow_id, coalesce($1::timestamptz, now()), count(*) filter (where u.status = 'succeeded'), count(*) filter (where u.status = 'dead'),
    count(*) filter (where u.status in ('cancelled', 'deleted'))
from unnest($2::uuid[], $3::timestamptz[], $4::text[]) u (id, scheduled_at, status)
cross join lateral (select j.workflow_id from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.workflow_id is not null and exists (select from punctual_nodes n where n.job_id = u.id) group by j.workflow_id;

-- name: ends_change
-- Ends of a workflow's jobs count no more. In: the time (or null), workflow, changes of the three ends.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
values ($2::uuid, coalesce($1::timestamptz, now()), $3::int4, $4::int4, $5::int4);

-- name: enqueue
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue alike
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue alike with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from x where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from x where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from x where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from x, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from x
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from x where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from x where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from x where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue undispatched
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue undispatched alike
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue undispatched alike with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from x where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from x where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from x where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from x, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from x
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from x where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from x where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from x where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue undispatched with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from x where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from x where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from x where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from x, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from x
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from x where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from x where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from x where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x ),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from x where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from x where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from x where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from x where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from x where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from x, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from x
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from x where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from x where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from x where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id, created_at from x limit 1;

-- name: enqueue_unknown
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown alike
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown alike with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from i where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from i where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from i where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from i, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from i
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from i where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from i where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from i where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown undispatched
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown undispatched alike
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown undispatched alike with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from i where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from i where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from i where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from i, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from i
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from i where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from i where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from i where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown undispatched with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, false
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from i where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from i where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from i where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from i, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from i
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from i where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from i where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from i where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_unknown with part
-- Stores jobs with their first events, if they are not simply queued, and puts each where claims will find it. Fails if an id is
-- known, or passes it over.
-- In: the time (or null), then one array a column. Out: the ids that are new and when they were stored; of one, unless any may be passed over.
with x as materialized (
    select y.*, case when y.run_at > y.created_at then 'scheduled' else 'queued' end as status
    from (select u.*, coalesce($1::timestamptz, now()) as created_at,
                 coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
          from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
) y),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null
    from x on conflict do nothing returning *),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, max_attempts, timeout_ms, keep_for_ms, ephemeral,
        user_id, correlation_id, unique_key, workflow_id, options, flow, limit_key, payload, dispatched)
    select run_at, id, created_at, lane, 0, 0, 1, max_attempts, timeout_ms, keep_for_ms, ephemeral, user_id, correlation_id,
        unique_key, workflow_id, options, workflow_id is not null, options::json ->> 'concurrency_key', case when octet_length(payload) <= 1000 then payload end, true
    from i where status = 'queued'),
e as (
    insert into punctual_events (job_id, n, at, status)
    select id, 1, created_at, status from i where status <> 'queued' or not (scheduled_at between created_at - interval '1 second' and created_at + interval '1 second')),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, true from i where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from i where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from i where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from i, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from i
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from i where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from i where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from i where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from i group by lane, status)
select id, created_at from i;

-- name: enqueue_waiting
-- Stores jobs that wait for others, with their first events. Fails if an id is known.
-- In: the time (or null), then one array a column, for how many each waits, and whether one of the others has failed.
with x as materialized (
    select u.*, coalesce($1::timestamptz, now()) as created_at, 'waiting' as status,
        coalesce(u.scheduled_at + u.delay_us * interval '1 microsecond', least(u.scheduled_at, coalesce($1::timestamptz, now()))) as run_at
    from -- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[], $19::int4[], $20::bool[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane, waiting_on, any_failed)
),
i as (
    insert into punctual_jobs (id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id,
        correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload, flow, waiting_on)
    select id, scheduled_at, lane, name, queue, status, priority, run_at, max_attempts, timeout_ms, user_id, correlation_id,
        unique_key, workflow_id, keep_for_ms, ephemeral, created_at, created_at, options, payload, workflow_id is not null, waiting_on
    from x),
w as (
    insert into punctual_waiting (id, run_at, scheduled_at, since, lane, waiting_on, any_failed)
    select id, run_at, scheduled_at, created_at, lane, waiting_on, any_failed from x),
e as (insert into punctual_events (job_id, n, at, status) select id, 1, created_at, status from x),
-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, run_at > created_at + 30000000 * interval '1 microsecond' from x where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from x where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from x where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from x, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from x
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, options::json ->> 'concurrency_key' from x where status = 'queued' and options::json ->> 'concurrency_key' is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from x where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from x where user_id is not null group by user_id, name),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, count(*) from x group by lane, status)
select id from x limit 0;

-- name: ephemeral
-- Ephemeral jobs from before an instant that nobody runs. In: the instant, how many. Reads the whole table, which is small.
select e.id from punctual_ephemeral e
where e.created_at < $1::timestamptz and not exists (select from punctual_running r where r.id = e.id) order by e.id limit $2::int8;

-- name: events
-- What is stored of a job's story, within one partition. In: id, when its last event there was written.
-- Index: punctual_events_final, one instant after the other; lateral, or the server would look for the job at all instants at once.
with recursive story (at) as (
    select $2::timestamptz
    union
    select e.previous_at from story s cross join lateral (
        select e.previous_at from {events} e where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = $1::uuid offset 0) e
    where e.previous_at is not null)
select e.n, e.at, e.status, e.run, e.actor, e.detail, e.attempt, e.outcome, e.worker_id, e.started_at, e.error, e.previous_at
from story s cross join lateral (select * from {events} e where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = $1::uuid offset 0) e
order by e.n;

-- name: expired
-- Executions whose lease has run out, longest ago first. One that is being settled at this moment is none of them.
-- In: the time (or null), how many, the time before which none is expected. Out: id, whether its worker has confirmed that its handler is about to start, run, worker. Index: punctual_running_lease.
select id, confirmed, run, worker_id from punctual_running where lease_until <= coalesce($1::timestamptz, now()) and lease_until >= $3::timestamptz order by lease_until, id limit $2::int8 for update skip locked;

-- name: extend
-- Keeps leases that have not run out. In: the time (or null), ids, runs, the worker, the lease. Out: the ids that are held.
-- An execution that is being settled at this moment, perhaps in a handler's own long transaction, is held, and not waited for.
-- Index: primary key.
with u as materialized (select * from unnest($2::uuid[], $3::int4[]) u (id, run)),
c as materialized (
    select u.id, r.place, r.lease_until from u cross join lateral (
        select r.ctid as place, r.lease_until from punctual_running r
        where r.id = u.id and r.run = u.run and r.worker_id = $4::uuid for update skip locked) r),
x as (
    update punctual_running r set lease_until = greatest(r.lease_until, coalesce($1::timestamptz, now()) + $5::int8 * interval '1 microsecond')
    where r.ctid = any (array(select place from c where lease_until > coalesce($1::timestamptz, now()))))
select u.id, u.run, (select set_config('synchronous_commit', 'off', true)) from u
cross join lateral (
    select * from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = $4::uuid limit 1) r
where r.lease_until > coalesce($1::timestamptz, now()) or u.id <> all (array(select id from c));

-- name: finish alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends, if nothing is recorded of them yet: they were the first of jobs that are as they were when they came.
-- In besides: lanes, times, when each began.
    delete from punctual_ready r
    using unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $15::int4[], $16::timestamptz[], $17::timestamptz[])
        as s (id, scheduled_at, run, result, lane, run_at, started_at)
    -- The lane not by plain equality, for the same reason as in begin.sql.
    where r.lane = any (array[s.lane]) and r.run_at = s.run_at and r.id = s.id
        and r.run = 0 and r.events = 1 and not r.flow
    returning r.id, s.scheduled_at, s.run, r.attempt + 1 as attempt, $6::uuid as worker_id, greatest(s.started_at, r.queued_at) as started_at, r.queued_at, r.events + 1 as events,
        r.lane, r.keep_for_ms, r.user_id, r.flow, null::text as limit_key, s.result, r.run_at
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from l),
u as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - $11::bool::int4, run = l.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce($14::text, j.error),
        events = l.events + 1 + ($13::text is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('queued', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4),
v as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), lane, 'lateness',
        width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]), count(*)
    from l group by 1, 2, 4)

select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: flow_cancel
-- Waiting jobs are cancelled. In: the time (or null), ids, why. Index: primary keys.
with w as (
    delete from punctual_waiting w using unnest($2::uuid[], $3::text[]) u (id, reason) where w.id = any (array[u.id])
    returning w.*, u.reason),
j as (
    update {jobs} j set status = 'cancelled', updated_at = coalesce($1::timestamptz, now()), finished_at = coalesce($1::timestamptz, now()), events = j.events + 1, waiting_on = w.waiting_on
    from w where j.scheduled_at = w.scheduled_at and j.id = w.id
    returning j.id, j.lane, j.name, j.unique_key, j.workflow_id, j.keep_for_ms, j.user_id, j.events, w.since, w.reason),
e as (
    insert into punctual_events (job_id, n, at, previous_at, lane, final, status, detail)
    select id, events, coalesce($1::timestamptz, now()), since, lane, 2, 'cancelled', reason from j),
k as (delete from punctual_keys k using j where j.unique_key is not null and k.job_id = j.id),
k2 as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from j where keep_for_ms is not null),
n as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, coalesce($1::timestamptz, now()), 0, 0, count(*) from j
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = j.id) group by workflow_id),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.sign * count(*) from j, (values ('waiting', -1), ('cancelled', 1)) s (status, sign) group by lane, s.status, s.sign),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from j where user_id is not null group by user_id, name)
select 1;

-- name: flow_hold
-- Holds waiting jobs, in the order of ids. In: ids. Index: primary key.
select w.id from unnest($1::uuid[]) u (id)
cross join lateral (select id from punctual_waiting w where w.id = u.id for update) w;

-- name: flow_meet
-- Jobs need not wait for parents any more. In: parents, children, whether each parent succeeded. Index: primary key.
update punctual_dependencies d set succeeded = u.succeeded
from unnest($1::uuid[], $2::uuid[], $3::bool[]) u (parent, child, succeeded) where d.parent = u.parent and d.child = u.child;

-- name: flow_pending
-- The jobs that wait for some jobs. In: ids. Out: parent, child, what the child does if the parent fails, for how many it waits, and
-- whether one of the others has failed. Index: primary keys.
select d.parent, d.child, d.policy, w.waiting_on, w.any_failed from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.parent = u.id and d.succeeded is null) d
cross join lateral (select * from punctual_waiting w where w.id = d.child limit 1) w;

-- name: flow_start
-- Jobs have waited for their parents. In: the time (or null), ids.
-- Out: the lanes that got something, with the earliest time in each. Index: primary keys.
with w as (delete from punctual_waiting w using unnest($2::uuid[]) u (id) where w.id = any (array[u.id]) returning w.*),
j as (
    update {jobs} j set status = case when j.run_at > coalesce($1::timestamptz, now()) then 'scheduled' else 'queued' end, run_at = greatest(j.run_at, coalesce($1::timestamptz, now())),
        updated_at = coalesce($1::timestamptz, now()), events = j.events + 1, waiting_on = 0
    from w where j.scheduled_at = w.scheduled_at and j.id = w.id
    returning j.id, j.scheduled_at, j.status, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, j.options::json ->> 'concurrency_key' as limit_key, w.since),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, coalesce($1::timestamptz, now()), lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key from j where status = 'queued'),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, coalesce($1::timestamptz, now()), limit_key from j where status = 'queued' and limit_key is not null),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select run_at, id, scheduled_at, coalesce($1::timestamptz, now()), lane, status from j where status = 'scheduled'),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, coalesce($1::timestamptz, now()), since, status from j),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, 'waiting', -count(*) from j group by lane
    union all
    select lane, status, count(*) from j group by lane, status)
select lane, min(run_at) from j group by lane;

-- name: flow_wait
-- Jobs wait for fewer parents. In: ids, for how many, whether one of the others has failed. Index: primary key.
update punctual_waiting w set waiting_on = u.waiting_on, any_failed = u.any_failed
from unnest($1::uuid[], $2::int4[], $3::bool[]) u (id, waiting_on, any_failed) where w.id = u.id;

-- name: fold_counts
-- Adds up the changes of the counters.
with d as (delete from punctual_counts_new returning *)
insert into punctual_counts as c (lane, status, n)
select lane, status, sum(n) from d group by lane, status order by lane, status
on conflict (lane, status) do update set n = c.n + excluded.n;

-- name: fold_ends
-- Adds up the ends of workflows' jobs.
with d as (delete from punctual_ends_pending returning *)
update punctual_workflows w set succeeded = w.succeeded + s.succeeded, dead = w.dead + s.dead, cancelled = w.cancelled + s.cancelled,
    updated_at = greatest(w.updated_at, s.at)
from (
    select workflow, max(at) as at, sum(succeeded)::int4 as succeeded, sum(dead)::int4 as dead, sum(cancelled)::int4 as cancelled
    from d group by workflow) s
where w.id = s.workflow;

-- name: fold_pending
-- Adds up the changes of users' counters.
with d as (delete from punctual_pending_new returning *)
insert into punctual_pending as c (user_id, name, n)
select user_id, name, sum(n) from d group by user_id, name order by user_id, name
on conflict (user_id, name) do update set n = c.n + excluded.n;

-- name: fold_rollups
-- Adds up the changes of the rollups.
with d as (delete from punctual_rollups_new returning *)
insert into punctual_rollups as c (hour, lane, measure, bucket, n)
select hour, lane, measure, bucket, sum(n) from d group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (hour, lane, measure, bucket) do update set n = c.n + excluded.n;

-- name: get
-- A job by its id. In: id, when it is scheduled for. Index: the whole primary key of one partition, then that of what is running.
select j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at from {jobs} j left join punctual_running r on r.id = j.id where j.scheduled_at = $2::timestamptz and j.id = $1::uuid;

-- name: get_many
-- Jobs by their ids, in any order. In: ids, when each is scheduled for. Index: as for one.
select j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: held
-- Which executions are under way in a worker's hands. In: ids, the worker. Out: id, run. Index: primary key.
select r.id, r.run from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id limit 1) r where r.worker_id = $2::uuid;

-- name: import_parents
-- Something follows from the ends of jobs that have come from another store. In: ids, when each is scheduled for. Index: primary keys.
with u as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
j as (
    update punctual_jobs j set flow = true from u where j.scheduled_at = u.scheduled_at and j.id = u.id
    returning j.id, j.lane, j.run_at),
r as (update punctual_ready r set flow = true from j where r.lane = j.lane and r.run_at = j.run_at and r.id = j.id)
update punctual_running r set flow = true from j where r.id = j.id;

-- name: job_update
-- Another enqueue changes a job, whose place is held. In: the time (or null), id, when it is scheduled for, payload (or null), run_at (or null), when it
-- last changed, why. Index: primary keys, punctual_waiting's primary key.
with j as (
    update punctual_jobs j set payload = coalesce($4::text, j.payload), run_at = coalesce($5::timestamptz, j.run_at), updated_at = coalesce($1::timestamptz, now()),
        events = j.events + 1
    where j.scheduled_at = $3::timestamptz and j.id = $2::uuid
    returning j.id, j.lane, j.run_at, j.status, j.events),
r as (
    update punctual_ready r set payload = null, dispatched = false, queued_at = coalesce($1::timestamptz, now()), events = j.events
    from j where r.lane = j.lane and r.run_at = j.run_at and r.id = j.id and j.status = 'queued'),
d as (
    update punctual_due d set run_at = j.run_at, since = coalesce($1::timestamptz, now()), dispatched = false
    from j where d.run_at = $8::timestamptz and d.id = j.id and j.status in ('scheduled', 'retrying')),
w as (update punctual_waiting w set since = coalesce($1::timestamptz, now()) from j where w.id = j.id)
insert into punctual_events (job_id, n, at, previous_at, status, detail)
select id, events, coalesce($1::timestamptz, now()), $6::timestamptz, status, $7::text from j;

-- name: keep_job
-- Says how long a finished job is kept.
-- In: the job, the time it is scheduled for, milliseconds after its end as they were (or null) and as they are. Index: primary keys.
with j as (
    update punctual_jobs set keep_for_ms = $4::int8 where scheduled_at = $2::timestamptz and id = $1::uuid returning id, finished_at),
k as (delete from punctual_expiries k using j where k.expires_at = j.finished_at + $3::int8 * interval '1 millisecond' and k.id = j.id)
insert into punctual_expiries (expires_at, id) select finished_at + $4::int8 * interval '1 millisecond', id from j;

-- name: keys_alone
-- One after the other, those who may change the job that has a unique key: it moves with each change, and all others would miss it.
-- In: scopes, keys. In the order of the locks' numbers, so that two of these never wait for each other.
select pg_advisory_xact_lock(hashtext('punctual keys'), k.n) from (
    select distinct hashtext(concat_ws(chr(31), current_schema(), u.scope, u.key)) as n
    from unnest($1::text[], $2::text[]) u (scope, key) order by n) k;

-- name: keys_hold
-- Holds unique keys that jobs may have to give back, in the order given, which is the same everywhere. In: scopes, keys.
-- Index: primary key.
select k.key from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select key from punctual_keys k where k.scope = u.scope and k.key = u.key for update) k;

-- name: keys_holder
-- Holds a unique key. In: scope, key. Out: the job that has it, until when it is in force. Index: primary key.
select job_id, expires_at from punctual_keys where scope = $1::text and key = $2::text for update;

-- name: keys_holders
-- The jobs that hold unique keys. In: scopes, keys. Index: primary key.
select k.job_id from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select job_id from punctual_keys k where k.scope = u.scope and k.key = u.key limit 1) k;

-- name: keys_of
-- The unique keys of jobs. In: ids. Out: scope, key. Index: punctual_keys_job.
select k.scope, k.key from unnest($1::uuid[]) u (id)
cross join lateral (select scope, key from punctual_keys k where k.job_id = u.id) k;

-- name: keys_retake
-- A job that is to run again takes a unique key that is free, or is held and passes from another job. In: scope, key, job, until when, the other
-- job. Rows changed: 1, or 0 if the key was free and is not any more. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at) values ($1::text, $2::text, $3::uuid, $4::timestamptz)
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at where k.job_id = $5::uuid;

-- name: keys_take
-- Takes unique keys for jobs, in the order given, which is the same everywhere, so that two of these never wait for each other.
-- In: the time (or null), scopes, keys, jobs, for how long each is in force. Out: scope, key, the job that has it now, whether it is still in
-- force, and the time. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at)
select scope, key, job_id, coalesce($1::timestamptz, now()) + period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
on conflict (scope, key) do update set job_id = k.job_id
returning k.scope, k.key, k.job_id, k.expires_at, coalesce($1::timestamptz, now());

-- name: keys_turn_over
-- Unique keys, which are held, pass from jobs that are no longer in the way to others. In: as keys_take.sql. Index: primary key.
update punctual_keys k set job_id = u.job_id, expires_at = coalesce($1::timestamptz, now()) + u.period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
where k.scope = u.scope and k.key = u.key;

-- name: known
-- Which of some ids are known. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j;

-- name: lanes
-- All lanes that there have ever been. Reads the whole table: one row for each queue, name and priority, without and with keys.
select lane, queue, name, priority, keyed from punctual_lanes;

-- name: lanes_add
-- New lanes. In: queues, names, priorities, whether their jobs have keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct queue, name, priority, keyed from unnest($1::text[], $2::text[], $3::int2[], $4::bool[]) u (queue, name, priority, keyed)
order by queue, name, priority, keyed
on conflict do nothing;

-- name: latecomers_trim
-- Forgets old latecomers. In: from before when. Index: punctual_late_commits_written.
delete from punctual_late_commits where written < $1::timestamptz;

-- name: leases_of
-- What a worker has claimed. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, how many. Out: id, whether its worker has confirmed that its handler is about to start, run, worker.
select id, confirmed, run, worker_id from punctual_running where worker_id = $1::uuid order by id limit $2::int8;

-- name: leave
-- A worker is gone. Index: primary key.
delete from punctual_workers where id = $1::uuid;

-- name: limits_begin
-- In: the time (or null). Out: the time by now, and how often anything was said of queues. The transaction may have waited since it began, and
-- starts must not be counted as earlier than they are.
select coalesce($1::timestamptz, clock_timestamp()), ((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues));

-- name: limits_begin_moment
-- Starts that are counted as later than now, in moments of a rate that is another now, are counted as of now. In: the time (or null), the queue.
-- Index: all of the queue's.
with d as (delete from punctual_limit_starts where queue = $2::text and at > coalesce($1::timestamptz, now()) returning key, n)
insert into punctual_limit_starts as s (queue, key, at, n) select $2::text, key, coalesce($1::timestamptz, now()), sum(n) from d group by key
on conflict (queue, key, at) do update set n = s.n + excluded.n;

-- name: limits_close
-- Keys have nothing to start, as far as known. In: queues, keys. Index: punctual_limit_heads_key.
delete from punctual_limit_heads h using unnest($1::text[], $2::text[]) u (queue, key) where h.queue = u.queue and h.key = u.key;

-- name: limits_forget
-- Keys that are behind their queue are as those that nobody remembers. In: the queue, how far it has come.
-- Index: all of the queue's; done once a round.
delete from punctual_limit_fairness where queue = $1::text and turn <= $2::int8 and key <> '';

-- name: limits_heads
-- The keys that have something to start of lanes, first ones first. In: lanes, how many of each. Out: lane, queue, key, turn.
-- Index: the head of a range of the primary key for each.
select k.lane, h.queue, h.key, h.turn from unnest($1::int4[]) k (lane) cross join lateral (
    select h.queue, h.key, h.turn from punctual_limit_heads h where h.lane = k.lane order by h.turn, h.run_at, h.id limit $2::int8) h;

-- name: limits_held
-- How many jobs of keys are held, and how many of their slots cancelled ones occupy. In: queues, keys, the time. Out: the number of a key, and how many;
-- nothing if none is.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key. Not as a join, for which a plan that was made while nothing ran would read all of it for each key.
select u.i, count(*) from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i) cross join lateral (
    select n.queue from (
        select r.lane from punctual_running r where r.limit_key = any (array[u.key]) and r.limit_key is not null offset 0) r cross join lateral (
        select n.queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = u.queue
    union all
    select s.queue from punctual_occupied_slots s where s.queue = u.queue and s.limit_key = u.key and s.lease_until > $3::timestamptz) h
group by u.i;

-- name: limits_held_of_queues
-- How many jobs of queues are held, and how many of their slots cancelled ones occupy. In: queues, the time. Out: queue, how many.
-- Reads all that is held, which is as much as all workers run. Index: a range of punctual_occupied_slots_limit_key for each queue.
select h.queue, count(*) from (
    select n.queue from punctual_running r cross join lateral (select queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = any ($1::text[])
    union all
    select s.queue from punctual_occupied_slots s where s.queue = any ($1::text[]) and s.lease_until > $2::timestamptz) h
group by h.queue;

-- name: limits_keyed
-- The first queued jobs of keys. In: numbers of keys, keys, lanes, how many of each. Out: the number, lane, run_at, id.
-- Index: the head of a range of punctual_ready_limit_key for each.
select u.i, u.lane, r.run_at, r.id from unnest($1::int4[], $2::text[], $3::int4[], $4::int8[]) u (i, key, lane, n) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -u.lane order by r.run_at, r.id limit u.n) r;

-- name: limits_lock
-- One claim after the other minds the limits of a queue. In: queues. Out: those that nobody else is at.
select q.queue from unnest($1::text[]) q (queue)
where pg_try_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext(q.queue));

-- name: limits_mark
-- Keys that have anything queued are to be looked at from a time on, once. In: queues, times, keys. Out: those times.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
with m as materialized (
    select u.queue, u.at, u.key from unnest($1::text[], $2::timestamptz[], $3::text[]) u (queue, at, key)
    where exists (
        select from punctual_lanes n cross join lateral (
            select r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane limit 1) r
        where n.queue = u.queue and n.keyed)),
i as (
    insert into punctual_limit_wakeups (queue, at, key)
    select * from m where not exists (select from punctual_limit_wakeups o where o.queue = m.queue and o.at = m.at and o.key = m.key))
select at from m;

-- name: limits_mark_queue
-- All keys of a queue that have anything queued are to be looked at. In: the time (or null), the queue.
-- Index: each lane's range of punctual_ready, whole.
insert into punctual_limit_wakeups (queue, at, key)
select distinct n.queue, coalesce($1::timestamptz, now()), r.limit_key from punctual_lanes n join punctual_ready r on r.lane = n.lane
where n.queue = $2::text and n.keyed and r.limit_key is not null;

-- name: limits_marked
-- Takes the marks of keys that are to be looked at now. In: the time (or null), queues, how many of each. Out: queues and keys.
-- Index: the head of punctual_limit_wakeups_time for each queue.
with c as materialized (
    select m.place from unnest($2::text[]) q (queue) cross join lateral (
        select m.ctid as place from punctual_limit_wakeups m where m.queue = q.queue and m.at <= coalesce($1::timestamptz, now()) order by m.at limit $3::int8) m)
delete from punctual_limit_wakeups where ctid = any (array(select place from c)) returning queue, key;

-- name: limits_open
-- Keys may start something: looks for the first job of each, by lane. In: queues, keys, turns.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
insert into punctual_limit_heads (lane, turn, run_at, id, queue, key)
select n.lane, u.turn, r.run_at, r.id, u.queue, u.key from unnest($1::text[], $2::text[], $3::int8[]) u (queue, key, turn)
join punctual_lanes n on n.queue = u.queue and n.keyed cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane order by r.run_at, r.id limit 1) r;

-- name: limits_plain
-- The first queued jobs of lanes without keys. In: lanes, for each the time and the id before which nothing is expected, how many of each.
-- Out: lane, run_at, id. Index: the head of a range of the primary key for each.
select k.lane, r.run_at, r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) k (lane, low, low_id) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
    order by r.run_at, r.id limit $4::int8) r;

-- name: limits_started
-- Starts of limited jobs. In: queues, keys, when, how many, and up to when nothing counts any more. Index: primary key.
with f as (
    delete from punctual_limit_starts s using unnest($1::text[], $2::text[], $5::timestamptz[]) u (queue, key, horizon)
    where s.queue = u.queue and s.key = u.key and s.at <= u.horizon)
insert into punctual_limit_starts as s (queue, key, at, n) select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::int8[])
on conflict (queue, key, at) do update set n = s.n + excluded.n;

-- name: limits_starts
-- What limits have started lately. In: queues, keys, after when. Out: the number of a key, when, how many. Index: a range of the primary key each.
select u.i, s.at, s.n from unnest($1::text[], $2::text[], $3::timestamptz[]) with ordinality u (queue, key, horizon, i) cross join lateral (
    select s.at, s.n from punctual_limit_starts s where s.queue = u.queue and s.key = u.key and s.at > u.horizon) s;

-- name: limits_trim
-- Removes what limits need not remember. In: how many; queues, and up to when starts count no more in each; queues whose keys take turns.
-- In besides: the time. Reads the tables whole, once in a while.
with s as (
    delete from punctual_limit_starts where (queue, key, at) in (
        select s.queue, s.key, s.at from punctual_limit_starts s
        where s.at <= coalesce((select u.horizon from unnest($2::text[], $3::timestamptz[]) u (queue, horizon) where u.queue = s.queue), 'infinity')
        limit $1::int8)),
o as (delete from punctual_occupied_slots where lease_until <= $5::timestamptz)
delete from punctual_limit_fairness where (queue, key) in (
    select t.queue, t.key from punctual_limit_fairness t where not (t.queue = any ($4::text[])) limit $1::int8);

-- name: limits_turned
-- Keys have come so far. In: queues, keys, turns. Index: primary key.
insert into punctual_limit_fairness (queue, key, turn) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (queue, key) do update set turn = excluded.turn;

-- name: limits_turns
-- How far keys have come. In: queues, keys. Out: the number of a key, and its turn, if it is known. Index: primary key.
select u.i, t.turn from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i)
join punctual_limit_fairness t on t.queue = u.queue and t.key = u.key;

-- name: limits_wait
-- Waits until no claim minds the limits of a queue, and keeps others from it. In: the queue.
select pg_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext($1::text));

-- name: limits_work
-- Which limits may let something through. In: queues, lanes of jobs with keys; lanes of limited queues, and for each the
-- time and the id before which nothing is expected. Out: 0, the number of a queue and when the first of its keys is to be looked at; 1 and the
-- number of a lane in which something stands, the lanes counted together. Index: one step in an index for each.
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
-- Deleted jobs, last ended first. In: before which (at, id), not before which at, how many.
-- Index: a range of punctual_deleted_finished, backwards.
select d.finished_at, d.id, null::int4, 'deleted' from punctual_deleted d
where (d.finished_at, d.id) < ($1::timestamptz, $2::uuid) and d.finished_at >= $3::timestamptz
order by d.finished_at desc, d.id desc limit $4::int8;

-- name: list_details
-- What lists select jobs by. In: ids, when each is scheduled for. Index: the whole primary key, then that of what is running.
select j.id, case when r.id is null then j.status else 'processing' end, j.queue, j.name, j.user_id, j.correlation_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: list_due
-- Scheduled and retrying jobs, next first. In: after which (run_at, id), before which run_at, how many.
-- Index: a range of the primary key.
select d.run_at, d.id, d.lane, d.status from punctual_due d
where (d.run_at, d.id) > ($1::timestamptz, $2::uuid) and d.run_at < $3::timestamptz
order by d.run_at, d.id limit $4::int8;

-- name: list_ended
-- Finished jobs of one status, last ended first. In: before which (at, id), not before which at, how many, how they ended.
-- Index: a range of punctual_events_final, backwards.
select e.at, e.job_id, e.lane, e.status from punctual_events e
where e.final = $5::int2 and e.at <= $1::timestamptz and (e.at, e.job_id) < ($1::timestamptz, $2::uuid)
    and e.at >= $3::timestamptz
order by e.at desc, e.job_id desc limit $4::int8;

-- name: list_label
-- The same for one user, correlation id or tag. In: as above, kind, value. Index: primary key, backwards.
select l.scheduled_at, l.id, null::int4, null::text from punctual_labels l
where l.kind = $5::text and l.value = $6::text and l.scheduled_at <= $1::timestamptz
    and (l.scheduled_at, l.id) < ($1::timestamptz, $2::uuid) and l.scheduled_at >= $3::timestamptz
order by l.scheduled_at desc, l.id desc limit $4::int8;

-- name: list_lane
-- Queued jobs of one lane, longest due first. In: as above, the lane. Index: a range of the primary key.
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
-- Jobs by the time they are scheduled for, latest first: when, which, its lane, its status if that is known from here.
-- In: before which (scheduled_at, id), not before which scheduled_at, how many. Index: primary keys of the partitions, backwards.
select j.scheduled_at, j.id, j.lane, null::text from punctual_jobs j
where j.scheduled_at <= $1::timestamptz and (j.scheduled_at, j.id) < ($1::timestamptz, $2::uuid) and j.scheduled_at >= $3::timestamptz
order by j.scheduled_at desc, j.id desc limit $4::int8;

-- name: list_running
-- Held jobs, longest due first. In: as above. Reads and sorts the whole table, which is as small as the fleet's concurrency.
select r.run_at, r.id, r.lane, 'processing' from punctual_running r
where (r.run_at, r.id) > ($1::timestamptz, $2::uuid) and r.run_at < $3::timestamptz
order by r.run_at, r.id limit $4::int8;

-- name: list_waiting
-- Waiting jobs, by the time they may start at the earliest. In: as above. Index: a range of punctual_waiting_time.
select w.run_at, w.id, w.lane, 'waiting' from punctual_waiting w
where (w.run_at, w.id) > ($1::timestamptz, $2::uuid) and w.run_at < $3::timestamptz
order by w.run_at, w.id limit $4::int8;

-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: the time (or null), name, owner, how long. Out: its token, or no row.
insert into punctual_locks as l (name, owner, token, expires_at)
select $2::text, $3::text, 1, t.now + $4::int8 * interval '1 microsecond' from (select coalesce($1::timestamptz, now()) as now) t
on conflict (name) do update set owner = excluded.owner, token = l.token + 1, expires_at = excluded.expires_at
where l.owner is null or l.owner = excluded.owner or l.expires_at <= coalesce($1::timestamptz, now())
returning token, expires_at;

-- name: lock_extend
-- Keeps a lock. In: the time (or null), name, owner, how long. Rows changed: 1 if it was held.
update punctual_locks set expires_at = coalesce($1::timestamptz, now()) + $4::int8 * interval '1 microsecond'
where name = $2::text and owner = $3::text and expires_at > coalesce($1::timestamptz, now());

-- name: locks
-- The locks that are held. In: the time (or null).
select name, owner, token, expires_at from punctual_locks
where owner is not null and expires_at > coalesce($1::timestamptz, now()) order by name;

-- name: logs
-- The log of a job, oldest line first. In: id, not before, how many. Index: primary key of the partitions since then.
select run, at, level, message from punctual_logs
where job_id = $1::uuid and at >= $2::timestamptz order by run, line limit $3::int8;

-- name: logs_add
-- Lines of logs, of jobs that exist; lines that are there already (a write that was tried again) stay.
-- In: ids, when each is scheduled for, runs, lines, times, levels, messages. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select u.id, u.run, u.line, u.at, u.level, u.message
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::int4[], $5::timestamptz[], $6::text[], $7::text[])
    u (id, scheduled_at, run, line, at, level, message)
where exists (select from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id)
on conflict do nothing;

-- name: mark_dispatched
-- The dispatcher has been informed of jobs. In: lanes, times, ids. Index: primary keys.
with u as materialized (select * from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)),
d as (
    update punctual_due d set dispatched = true from u
    where d.run_at = any (array[u.run_at]) and d.id = u.id and not d.dispatched)
update punctual_ready r set dispatched = true from u
where r.lane = any (array[u.lane]) and r.run_at = u.run_at and r.id = u.id and not r.dispatched;

-- name: next_due
-- When the next job is due. In: a time before which none is. Index: the head of the primary key.
select run_at from punctual_due where run_at >= $1::timestamptz order by run_at limit 1;

-- name: nodes
-- The places of a workflow. In: id. Out: node, job. Index: primary key.
select node, job_id from punctual_nodes where workflow = $1::uuid order by node;

-- name: nodes_add
-- Jobs take places in workflows. In: workflows, nodes, jobs.
insert into punctual_nodes (workflow, node, job_id) select * from unnest($1::uuid[], $2::text[], $3::uuid[])
on conflict (workflow, node) do update set job_id = excluded.job_id;

-- name: nodes_former
-- Jobs whose places in workflows are taken by others, with their statuses; the places are held, in the order given, which is the same everywhere.
-- In: workflows, nodes. Index: primary keys.
select n.workflow, n.node, n.job_id, j.workflow_id is not null, j.status from unnest($1::uuid[], $2::text[]) u (workflow, node)
cross join lateral (select * from punctual_nodes n where n.workflow = u.workflow and n.node = u.node for update) n
left join lateral (
    select * from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(n.job_id) and j.id = n.job_id limit 1) j on true;

-- name: notifications
-- Messages after one, oldest first. In: its number, how many. Index: the primary key.
select id, user_id, message, job_id, created_at from punctual_notifications where id > $1 order by id limit $2;

-- name: notifications_drop
-- Removes old messages, of the oldest so many. In: the time (or null), how old, how many. Their numbers go with their times. Index: the primary key.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit $3)
    and created_at < coalesce($1::timestamptz, now()) - $2::int8 * interval '1 microsecond';

-- name: notifications_last
-- The number of the last message that ever was.
select id from punctual_notifications_last;

-- name: notifications_of_user
-- Messages to a user and to everybody after one, oldest first. In: user, its number, how many. Index: punctual_notifications_user, two parts of it, merged.
select id, user_id, message, job_id, created_at from (
    (select * from punctual_notifications where user_id = $1 and id > $2 order by id limit $3)
    union all
    (select * from punctual_notifications where user_id is null and id > $2 order by id limit $3)) n
order by id limit $3;

-- name: notify
-- Stores messages. In: the time (or null), users, messages, jobs. Out: the number before theirs, and the time.
-- Locks: the row with the last number, until the commit.
with l as (
    update punctual_notifications_last set id = id + cardinality($3::text[]) returning id - cardinality($3::text[]) as before),
i as (
    insert into punctual_notifications (id, user_id, message, job_id, created_at)
    select l.before + n.place, n.user_id, n.message, n.job_id, coalesce($1::timestamptz, now())
    from l, unnest($2::text[], $3::text[], $4::uuid[]) with ordinality as n (user_id, message, job_id, place))
select before, coalesce($1::timestamptz, now()) from l;

-- name: old_day_forget
-- Counts the jobs of a day that have gone as gone, and forgets what is kept of them elsewhere but for labels, events and logs.
-- Keys are taken in their order, as enqueues do. Reads the whole day.
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

-- name: once
-- Remembers a request, unless one of its key is known. In: the time (or null), key, fingerprint, seed. Out: what is known of it now.
-- Where somebody else has just stored it, the update makes its row seen.
insert into punctual_idempotency as r (key, fingerprint, at, seed) values ($2::text, $3::bytea, coalesce($1::timestamptz, now()), $4::int8)
on conflict (key) do update set key = r.key
returning fingerprint, at, seed;

-- name: parents_mark
-- Something follows from the ends of jobs, whose places are held. In: ids, when each is scheduled for, lanes, run_ats. Index: primary keys.
with u as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::timestamptz[]) u (id, scheduled_at, lane, run_at)),
j as (update punctual_jobs j set flow = true from u where j.scheduled_at = u.scheduled_at and j.id = u.id and not j.flow),
r as (update punctual_ready r set flow = true from u where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id and not r.flow)
update punctual_running r set flow = true from u where r.id = any (array[u.id]) and not r.flow;

-- name: parents_of
-- Whom jobs wait for, or waited for. In: ids. Out: child, parent. Index: punctual_dependencies_child.
select d.child, d.parent from unnest($1::uuid[]) u (id)
cross join lateral (select child, parent from punctual_dependencies d where d.child = u.id) d;

-- name: pending
-- Unfinished jobs by user and name. Reads two small tables whole: one row for each user and name that has any.
select user_id, name, sum(n)::int8
from (select * from punctual_pending union all select * from punctual_pending_new) p
group by user_id, name having sum(n) > 0;

-- name: progress
-- How far held jobs have come. In: ids, when each is scheduled for, runs, workers, documents. Index: primary keys.
update punctual_jobs j set progress = u.progress
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::uuid[], $5::text[]) u (id, scheduled_at, run, worker_id, progress)
where j.scheduled_at = u.scheduled_at and j.id = u.id and exists (
    select from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = u.worker_id);

-- name: promote
-- Makes scheduled and retrying jobs queued whose time has come, longest overdue first.
-- In: the time (or null), the time before which nothing is expected, how many, the jobs whose options are damaged.
-- Out: the lanes that got something, with the earliest time in each. Index: the head of the primary key.
with c as materialized (
    select d.ctid as place from punctual_due d where d.run_at >= $2::timestamptz and d.run_at <= coalesce($1::timestamptz, now())
    order by d.run_at, d.id limit $3::int8 for update skip locked),
d as (delete from punctual_due where ctid = any (array(select place from c)) returning *),
j as (
    update punctual_jobs j set status = 'queued', updated_at = coalesce($1::timestamptz, now()), events = j.events + 1
    from d where j.scheduled_at = d.scheduled_at and j.id = d.id
    returning j.id, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, case when j.id = any ($4::uuid[]) then null else j.options::json ->> 'concurrency_key' end as limit_key, d.status as was, d.since, d.dispatched),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key, dispatched)
    select run_at, id, coalesce($1::timestamptz, now()), lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key,
        -- The dispatcher is informed as the time of a job comes near, unless all come due at once.
        dispatched and coalesce(run_at <= (select due_until from punctual_dispatch), not exists (select from punctual_dispatch_queues))
    from j),
m as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, coalesce($1::timestamptz, now()), limit_key from j where limit_key is not null),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, coalesce($1::timestamptz, now()), since, 'queued' from j),
c2 as (
    insert into punctual_counts_new (lane, status, n)
    select lane, was, -count(*) from j group by lane, was
    union all
    select lane, 'queued', count(*) from j group by lane)
select lane, min(run_at) as run_at, count(*) as n, (select set_config('synchronous_commit', 'off', true)) as unused from j group by lane;

-- name: purgeable
-- Jobs that have been deleted for long enough, longest first. In: cutoff, how many. Index: the head of the primary key.
select id from punctual_deleted where deleted_at <= $1::timestamptz order by deleted_at, id limit $2::int8;

-- name: queue_events
-- What was done to a queue, latest first. In: queue, how many. Index: punctual_queue_events_queue, backwards.
select at, actor, action from punctual_queue_events where queue = $1::text order by id desc limit $2::int8;

-- name: queue_save
-- Changes what is said of a queue, if it was changed so often before. In: the time (or null), name, paused, settings, how often, by whom, what.
-- Rows changed: 1, or 0 if somebody else was first. Index: primary key.
with s as (
    insert into punctual_queues as q (name, paused, settings, revision, updated_at, updated_by)
    select $2::text, $3::bool, $4::text, 1, coalesce($1::timestamptz, now()), $6::text
    where $5::int8 = 0 or exists (select from punctual_queues where name = $2::text)
    on conflict (name) do update set paused = excluded.paused, settings = excluded.settings, revision = q.revision + 1,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
    where q.revision = $5::int8
    returning name)
insert into punctual_queue_events (queue, at, actor, action) select name, coalesce($1::timestamptz, now()), $6::text, $7::text from s;

-- name: queued
-- Jobs of a lane that were queued before a time, after a place. In: lane, time, id, how many, before when. Out: time, id.
-- Index: a range of the primary key.
select run_at, id from punctual_ready
where lane = $1::int4 and (run_at, id) > ($2::timestamptz, $3::uuid) and queued_at < $5::timestamptz
order by run_at, id limit $4::int8;

-- name: queues
-- What is said of queues, by name. Reads the whole table, which is small.
select name, settings, revision, updated_at, updated_by from punctual_queues order by name;

-- name: relatives
-- What a workflow or a relative tells of jobs. In: ids, when each is scheduled for. Out: id, name, node, status.
-- Index: the whole primary key, then that of what is running.
select j.id, j.name, j.options::json ->> 'node', case when r.id is null then j.status else 'processing' end
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: remove
-- Removes every trace of jobs that nobody runs. In: ids, when each is scheduled for. Out: how many.
-- Index: primary keys, and punctual_events_final from each job's last event backwards.
with recursive u as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
j as (
    delete from punctual_jobs j using u where j.scheduled_at = u.scheduled_at and j.id = u.id returning j.*),
story (id, at) as (
    select j.id, j.updated_at from punctual_jobs j join u on j.scheduled_at = u.scheduled_at and j.id = u.id
    union
    select s.id, e.previous_at from story s join punctual_events e on e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = s.id where e.previous_at is not null),
e as (delete from punctual_events e using story s where e.final = any ('{0, 1, 2, 3}'::int2[]) and e.at = s.at and e.job_id = s.id),
g as (delete from punctual_logs g using j where g.job_id = j.id),
l as (
    delete from punctual_labels l using (
        select 'user' as kind, user_id as value, scheduled_at, id from j where user_id is not null
        union all
        select 'correlation', correlation_id, scheduled_at, id from j where correlation_id is not null
        union all
        select 'tag', tag, scheduled_at, id from j, json_array_elements_text(j.options::json -> 'tags') tag where options is not null
        union all
        select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from j
        where options::json #>> '{occurrence,schedule}' is not null) x
    where l.kind = x.kind and l.value = x.value and l.scheduled_at = x.scheduled_at and l.id = x.id),
r as (delete from punctual_ready r using j where r.lane = j.lane and r.run_at = j.run_at and r.id = j.id),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, updated_at, options::json ->> 'concurrency_key' from j where status = 'queued' and options::json ->> 'concurrency_key' is not null),
d as (delete from punctual_due d using j where d.run_at = j.run_at and d.id = j.id),
w as (delete from punctual_waiting w using j where w.id = j.id),
d1 as (delete from punctual_dependencies d using u where d.parent = u.id),
d2 as (delete from punctual_dependencies d using u where d.child = u.id and not exists (select from u p where p.id = d.parent)),
n as (delete from punctual_nodes n using u where n.job_id = u.id),
k as (delete from punctual_keys k using j where j.unique_key is not null and k.job_id = j.id),
x1 as (delete from punctual_deleted x using j where j.status = 'deleted' and x.deleted_at = j.updated_at and x.id = j.id),
x2 as (
    delete from punctual_expiries x using j
    where x.expires_at = j.finished_at + j.keep_for_ms * interval '1 millisecond' and x.id = j.id),
f as (delete from punctual_ephemeral f using j where f.id = j.id),
c as (
    insert into punctual_counts_new (lane, status, n) select lane, status, -count(*) from j group by lane, status),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from j where user_id is not null and finished_at is null group by user_id, name)
select count(*) from j;

-- name: requests_trim
-- Forgets requests from before a time, so many. In: the time, how many. Index: punctual_idempotency_at.
delete from punctual_idempotency where key in (select key from punctual_idempotency where at < $1::timestamptz order by at limit $2::int8);

-- name: results
-- What jobs returned. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id, j.result from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id, j.result from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.result is not null;

-- name: retirable_ended
-- Finished jobs of one status that have been kept long enough, oldest first, but those that say themselves how long they are kept.
-- In: cutoff, how many, not before, before, how they ended. Index: a range of punctual_events_final; then primary keys.
select e.job_id from punctual_events e
cross join lateral (
    select keep_for_ms from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(e.job_id) and j.id = e.job_id limit 1) j
where e.final = $5::int2 and e.at <= $1::timestamptz and e.at >= $3::timestamptz
    and e.at < $4::timestamptz and j.keep_for_ms is null
order by e.at, e.job_id limit $2::int8;

-- name: retirable_kept
-- Finished jobs that have been kept as long as they wished. In: the time, how many. Index: the head of the primary key.
select id from punctual_expiries where expires_at <= $1::timestamptz order by expires_at, id limit $2::int8;

-- name: rollups
-- What was counted in some hours. In: first hour, end. Index: a range of the primary key; and a small table whole.
select l.name, l.queue, t.measure, t.bucket, sum(t.n)::int8 from (
    select * from punctual_rollups where hour >= $1::timestamptz and hour < $2::timestamptz
    union all
    select * from punctual_rollups_new where hour >= $1::timestamptz and hour < $2::timestamptz) t
join punctual_lanes l on l.lane = t.lane
group by l.name, l.queue, t.measure, t.bucket;

-- name: schedule
-- One schedule. In: its name. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name = $1::text;

-- name: schedule_events
-- What was done to a schedule. In: its name, how many. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = $1::text order by id desc limit $2::int8;

-- name: schedule_events_add
-- Something was done to schedules. In: the time (or null), then one array a column.
insert into punctual_schedule_events (schedule, at, actor, action)
select schedule, coalesce($1::timestamptz, now()), actor, action from unnest($2::text[], $3::text[], $4::text[]) as u (schedule, actor, action);

-- name: schedule_remove
-- Removes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = $1::text;

-- name: schedules
-- A page of schedules. In: after which name, how many. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > $1::text order by name limit $2::int8;

-- name: schedules_save
-- Schedules as they are from now on: new ones if there is none of the name, others if nobody has changed them meanwhile.
-- In: one array a column, then which are new. Out: the names that were stored. Index: primary key.
with x as materialized (
    select * from unnest($1::text[], $2::uuid[], $3::text[], $4::bool[], $5::text[], $6::int8[], $7::timestamptz[], $8::timestamptz[],
        $9::uuid[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::bool[])
        as x (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
              updated_by, is_new)),
-- In the order of their names, so that two that save the same ones never wait for each other.
h as materialized (
    select x.* from punctual_schedules s join x on s.name = x.name and s.id = x.id and s.revision = x.revision and not x.is_new
    order by s.name for update of s),
u as (
    update punctual_schedules s set definition = h.definition::json, enabled = h.enabled, problem = h.problem,
        revision = h.revision + 1, last_run_at = h.last_run_at, next_run_at = h.next_run_at, last_job = h.last_job,
        created_at = h.created_at, updated_at = h.updated_at, updated_by = h.updated_by
    from h where s.name = h.name returning s.name),
i as (
    insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
        updated_at, updated_by)
    select name, id, definition::json, enabled, problem, revision + 1, last_run_at, next_run_at, last_job, created_at, updated_at,
        updated_by
    from x where is_new order by name on conflict (name) do nothing returning name)
select name from u union all select name from i;

-- name: settle
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when l.second is null then case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        l.first, l.attempt_status, l.error
    from l),
u as (
    update {jobs} j set status = l.status, run_at = case when l.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - l.gives_back::int4, run = l.run, crash_count = j.crash_count + (l.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when l.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce(l.error, j.error),
        events = l.events + 1 + (l.second is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and l.status in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, l.status as status, l.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql where all ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from l),
u as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - $11::bool::int4, run = l.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce($14::text, j.error),
        events = l.events + 1 + ($13::text is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle alike with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql where all ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from l),
u as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - $11::bool::int4, run = l.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce($14::text, j.error),
        events = l.events + 1 + ($13::text is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
-- The part of settle.sql for executions that are not the end of their job at once: it runs again, or ends with a second event.
e2 as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end, $13::text from l where $13::text is not null),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - $11::bool::int4, run,
        events + 1 + ($13::text is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from l where $9::text = 'queued'),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, $9::text
    from l where $9::text in ('scheduled', 'retrying')),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now())) and not r.flow
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when l.second is null then case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        l.first, l.attempt_status, l.error
    from l),
u as (
    update {jobs} j set status = l.status, run_at = case when l.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - l.gives_back::int4, run = l.run, crash_count = j.crash_count + (l.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when l.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce(l.error, j.error),
        events = l.events + 1 + (l.second is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
-- The part of settle.sql for executions that are not the end of their job at once: it runs again, or ends with a second event.
e2 as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end, l.second from l where l.second is not null),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - l.gives_back::int4, run,
        events + 1 + (l.second is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from l where l.status = 'queued'),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, l.status
    from l where l.status in ('scheduled', 'retrying')),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and l.status in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, l.status as status, l.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle_flow
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when l.second is null then case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        l.first, l.attempt_status, l.error
    from l),
u as (
    update {jobs} j set status = l.status, run_at = case when l.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - l.gives_back::int4, run = l.run, crash_count = j.crash_count + (l.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when l.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce(l.error, j.error),
        events = l.events + 1 + (l.second is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and l.status in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, l.status as status, l.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle_flow alike
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql where all ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from l),
u as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - $11::bool::int4, run = l.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce($14::text, j.error),
        events = l.events + 1 + ($13::text is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle_flow alike with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql where all ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = $6::uuid and (not $7::bool or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when $13::text is null then case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        $12::text, $8::text, $14::text
    from l),
u as (
    update {jobs} j set status = $9::text, run_at = case when $9::text = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - $11::bool::int4, run = l.run, crash_count = j.crash_count + ($8::text = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when $9::text in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce($14::text, j.error),
        events = l.events + 1 + ($13::text is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
-- The part of settle.sql for executions that are not the end of their job at once: it runs again, or ends with a second event.
e2 as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case $9::text when 'succeeded' then 3 when 'dead' then 1 else 0 end, $13::text from l where $13::text is not null),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - $11::bool::int4, run,
        events + 1 + ($13::text is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from l where $9::text = 'queued'),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + $10::int8 * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, $9::text
    from l where $9::text in ('scheduled', 'retrying')),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and $9::text in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, $9::text as status, $8::text as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: settle_flow with part
-- Ends executions whose fence holds, of jobs in one partition.
-- Those from whose end something follows are left out, or included where the caller sees to it.
-- In: the time (or null), then one array a column, in the order of ids, so that two of these never wait for each other.
-- Out: how many fences held, how many jobs there were for them; if not all held, which did; whether any of them was limited, so that
-- another may now. Index: primary keys.
with l as (-- The executions that settle.sql ends.
    delete from punctual_running r using -- The rows of settle.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)

    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = s.worker_id and (not s.only_if_expired or r.lease_until <= coalesce($1::timestamptz, now()))
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at, s.attempt_status, s.status, s.delay, s.gives_back, s.first, s.second, s.error
),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct n.queue, coalesce($1::timestamptz, now()), l.limit_key from l join punctual_lanes n on n.lane = l.lane where l.limit_key <> ''),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome,
        error)
    select id, events + 1, coalesce($1::timestamptz, now()), queued_at, started_at, lane, run, attempt, worker_id, case when l.second is null then case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end else 0 end,
        l.first, l.attempt_status, l.error
    from l),
u as (
    update {jobs} j set status = l.status, run_at = case when l.status = 'queued' then least(j.run_at, coalesce($1::timestamptz, now())) else coalesce(coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', j.run_at) end,
        attempt = l.attempt - l.gives_back::int4, run = l.run, crash_count = j.crash_count + (l.attempt_status = 'lost')::int4,
        updated_at = coalesce($1::timestamptz, now()), started_at = l.started_at, finished_at = case when l.status in ('succeeded', 'dead') then coalesce($1::timestamptz, now()) end,
        result = coalesce(l.result, j.result), error = coalesce(l.error, j.error),
        events = l.events + 1 + (l.second is not null)::int4
    from l where j.scheduled_at = l.scheduled_at and j.id = l.id returning 1),
-- The part of settle.sql for executions that are not the end of their job at once: it runs again, or ends with a second event.
e2 as (
    insert into punctual_events (job_id, n, at, previous_at, lane, run, final, status)
    select id, events + 2, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), lane, run, case l.status when 'succeeded' then 3 when 'dead' then 1 else 0 end, l.second from l where l.second is not null),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select least(run_at, coalesce($1::timestamptz, now())), id, coalesce($1::timestamptz, now()), lane, attempt - l.gives_back::int4, run,
        events + 1 + (l.second is not null)::int4, keep_for_ms, user_id, flow, nullif(limit_key, '')
    from l where l.status = 'queued'),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select coalesce($1::timestamptz, now()) + l.delay * interval '1 microsecond', id, scheduled_at, coalesce($1::timestamptz, now()), lane, l.status
    from l where l.status in ('scheduled', 'retrying')),
z as materialized (
    select id, lane, keep_for_ms, user_id from l
    where (keep_for_ms is not null or user_id is not null) and l.status in ('succeeded', 'dead')),
k as (
    insert into punctual_expiries (expires_at, id)
    select coalesce($1::timestamptz, now()) + keep_for_ms * interval '1 millisecond', id from z where keep_for_ms is not null),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select z.user_id, n.name, -count(*) from z join punctual_lanes n on n.lane = z.lane
    where z.user_id is not null group by z.user_id, n.name),
g as materialized (
    select lane, l.status as status, l.attempt_status as attempt_status,
        width_bucket(round(greatest(0, date_part('epoch', coalesce($1::timestamptz, now()) - started_at)) * 1000000), '{2,2,2,2,3,3,4,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,56,64,80,96,112,128,160,192,224,256,320,384,448,512,640,768,896,1024,1280,1536,1792,2048,2560,3072,3584,4096,5120,6144,7168,8192,10240,12288,14336,16384,20480,24576,28672,32768,40960,49152,57344,65536,81920,98304,114688,131072,163840,196608,229376,262144,327680,393216,458752,524288,655360,786432,917504,1048576,1310720,1572864,1835008,2097152,2621440,3145728,3670016,4194304,5242880,6291456,7340032,8388608,10485760,12582912,14680064,16777216,20971520,25165824,29360128,33554432,41943040,50331648,58720256,67108864,83886080,100663296,117440512,134217728,167772160,201326592,234881024,268435456,335544320,402653184,469762048,536870912,671088640,805306368,939524096,1073741824,1342177280,1610612736,1879048192,2147483648,2684354560,3221225472,3758096384,4294967296,5368709120,6442450944,7516192768,8589934592,10737418240,12884901888,15032385536,17179869184,21474836480,25769803776,30064771072,34359738368,42949672960,51539607552,60129542144,68719476736,85899345920,103079215104,120259084288,137438953472,171798691840,206158430208,240518168576,274877906944,343597383680,412316860416,481036337152,549755813888,687194767360,824633720832,962072674304,1099511627776,1374389534720,1649267441664,1924145348608,2199023255552,2748779069440,3298534883328,3848290697216,4398046511104,5497558138880,6597069766656,7696581394432,8796093022208,10995116277760,13194139533312,15393162788864,17592186044416,21990232555520,26388279066624,30786325577728,35184372088832,43980465111040,52776558133248,61572651155456,70368744177664,87960930222080,105553116266496,123145302310912,140737488355328,175921860444160,211106232532992,246290604621824,281474976710656,351843720888320,422212465065984,492581209243648,562949953421312,703687441776640,844424930131968,985162418487296,1125899906842624,1407374883553280,1688849860263936,1970324836974592,2251799813685248,2814749767106560,3377699720527872,3940649673949184,4503599627370496,5629499534213120,6755399441055744,7881299347898368,9007199254740992,11258999068426240,13510798882111488,15762598695796736,18014398509481984,22517998136852480,27021597764222976,31525197391593472,36028797018963968,45035996273704960,54043195528445952,63050394783186944,72057594037927936,90071992547409920,108086391056891904,126100789566373888,144115188075855872,180143985094819840,216172782113783808,252201579132747776,288230376151711744,360287970189639680,432345564227567616,504403158265495552,576460752303423488,720575940379279360,864691128455135232,1008806316530991104,1152921504606846976,1441151880758558720,1729382256910270464,2017612633061982208,2305843009213693952,2882303761517117440,3458764513820540928,4035225266123964416}'::float8[]) as bucket, count(*) as n
    from l group by 1, 2, 3, 4),
c as (
    insert into punctual_counts_new (lane, status, n)
    select g.lane, s.status, sum(s.sign * g.n) from g cross join lateral (values ('processing', -1), (g.status, 1)) s (status, sign)
    group by 1, 2),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', coalesce($1::timestamptz, now()), 'UTC'), g.lane, m.measure, g.bucket, sum(g.n)
    from g cross join lateral (select g.attempt_status as measure union all select 'died' where g.status = 'dead') m
    group by 1, 2, 3, 4)
select d.n, (select count(*) from u), case when d.n < cardinality($2::uuid[]) then (select array_agg(id) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(run) from l) end,
    case when d.n < cardinality($2::uuid[]) then (select array_agg(worker_id) from l) end,
    d.limited
from (select count(*) as n, coalesce(bool_or(limit_key is not null), false) as limited from l) d;

-- name: slots_occupied
-- The slots of a queue and its keys that are occupied. In: queue, the time. Index: a range of punctual_occupied_slots_limit_key. Sorts what it finds, which is little.
select job_id, run, worker_id, nullif(limit_key, ''), lease_until from punctual_occupied_slots
where queue = $1::text and lease_until > $2::timestamptz order by job_id, run;

-- name: slots_release
-- Executions of cancelled jobs occupy their slots no longer. In: the time (or null), ids, runs, workers, in the order of ids. Out: how many did.
-- A key is looked at again now, and not when the lease ends, unless another one ends then. Index: primary key, punctual_limit_wakeups_time,
-- punctual_occupied_slots_limit_key.
with d as (
    delete from punctual_occupied_slots s using unnest($2::uuid[], $3::int4[], $4::uuid[]) u (id, run, worker_id)
    where s.job_id = any (array[u.id]) and s.run = u.run and s.worker_id = u.worker_id returning s.*),
-- The part that slots_release.sql and slots_release_of.sql share: what follows for the keys of slots that have gone.
m as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, coalesce($1::timestamptz, now()), limit_key from d where limit_key <> ''),
x as (
    delete from punctual_limit_wakeups m using d
    where m.queue = d.queue and m.at = d.lease_until and m.key = d.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = d.queue and o.limit_key = d.limit_key and o.lease_until = d.lease_until
            and not exists (select from d e where e.job_id = o.job_id and e.run = o.run)))
select count(*) from d;

-- name: slots_release_of
-- A worker that is known to be dead occupies no slots. In: the time (or null), the worker. Out: how many it did.
-- Reads all that is occupied, which is little. Index: as of slots_release.sql.
with d as (delete from punctual_occupied_slots s where s.worker_id = $2::uuid returning s.*),
-- The part that slots_release.sql and slots_release_of.sql share: what follows for the keys of slots that have gone.
m as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, coalesce($1::timestamptz, now()), limit_key from d where limit_key <> ''),
x as (
    delete from punctual_limit_wakeups m using d
    where m.queue = d.queue and m.at = d.lease_until and m.key = d.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = d.queue and o.limit_key = d.limit_key and o.lease_until = d.lease_until
            and not exists (select from d e where e.job_id = o.job_id and e.run = o.run)))
select count(*) from d;

-- name: stand
-- For each of some places, in order, whether a job stands there. In: lanes, times, ids. Index: primary keys.
select exists (select from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id)
    or exists (select from punctual_due d where d.run_at = u.run_at and d.id = u.id)
from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) with ordinality u (lane, run_at, id, n) order by u.n;

-- name: standing
-- How jobs stand. In: ids, when each is scheduled for. Index: the whole primary key, then that of what is running.
select j.id, case when r.id is null then j.status else 'processing' end, coalesce(r.run, j.run), j.run_at, j.lane, j.finished_at
from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id;

-- name: suspects_lanes
-- The lanes of suspects beside those of running jobs, as far as they are not there. In: ids. Out: one row for each new lane. Index: primary keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct l.queue, l.name, l.priority + 16, l.keyed from punctual_running r join punctual_lanes l on l.lane = r.lane
where r.id = any ($1::uuid[]) and l.priority < 16
order by 1, 2, 3, 4
on conflict do nothing
returning lane;

-- name: suspects_move
-- Jobs whose workers were lost move to the lanes of suspects, with their places and counts. In: ids, when they are scheduled for.
-- Index: primary keys.
with j as (
    update punctual_jobs j set lane = suspects.lane
    from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at), punctual_lanes former, punctual_lanes suspects
    where j.scheduled_at = u.scheduled_at and j.id = u.id and former.lane = j.lane and former.priority < 16
        and suspects.queue = former.queue and suspects.name = former.name and suspects.priority = former.priority + 16
        and suspects.keyed = former.keyed
    returning j.id, j.run_at, j.status, former.lane as former, suspects.lane),
ready as (
    update punctual_ready r set lane = j.lane from j where r.lane = j.former and r.run_at = j.run_at and r.id = j.id),
due as (
    update punctual_due d set lane = j.lane from j where d.run_at = j.run_at and d.id = j.id)
insert into punctual_counts_new (lane, status, n)
select former, status, -count(*) from j group by former, status
union all
select lane, status, count(*) from j group by lane, status;

-- name: tell_in
-- An application has stored something in a transaction of its own: tells those who wait, and leaves a note for those who follow.
-- In: the time (or null), the channel, what to say.
with l as (
    insert into punctual_late_commits (written, began, whole)
    select coalesce($1::timestamptz, clock_timestamp()), coalesce($1::timestamptz, now()), pg_current_xact_id()::text::int8 & 4294967295)
select pg_notify($2, w) from unnest($3::text[]) w;

-- name: token_add
-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at)
values ($1::uuid, $2::text, $3::text[], $4::bytea, $5::uuid, $6::text, $7::timestamptz, $8::timestamptz);

-- name: token_remove
-- Ends a token or session that is valid, and removes a session, or those of a token. In: the time (or null), its id. Out: how many were valid. There are few.
with removed as (
    delete from punctual_tokens where session_of = $2::uuid or id = $2::uuid and session_of is not null
    returning id, expires_at
), ended as (
    update punctual_tokens set expires_at = coalesce($1::timestamptz, now())
    where id = $2::uuid and session_of is null and (expires_at is null or expires_at > coalesce($1::timestamptz, now()))
    returning id
)
select (select count(*) from ended) + (select count(*) from removed where id = $2::uuid and (expires_at is null or expires_at > coalesce($1::timestamptz, now())));

-- name: tokens
-- All tokens, oldest first: their ids begin with their time. There are few.
select id, name, roles, hash, session_of, created_by, created_at, expires_at from punctual_tokens order by id;

-- name: tokens_clear
-- Removes all tokens and sessions, unless a token is valid. In: the time (or null). There are few.
delete from punctual_tokens where not exists (
    select from punctual_tokens valid where valid.session_of is null and (valid.expires_at is null or valid.expires_at > coalesce($1::timestamptz, now()))
);

-- name: tokens_trim
-- Removes sessions and tokens that have expired, but for the last token that was made: it shows that the store is closed. In: the time (or null). There are few.
delete from punctual_tokens where expires_at <= coalesce($1::timestamptz, now()) and (
    session_of is not null or id <> (select t.id from punctual_tokens t where t.session_of is null order by t.id desc limit 1)
);

-- name: trim
-- Removes old logs, counters and workers, and what old events say of executions.
-- In: cutoff of executions and logs, of counters, of workers, how many, when the first event may be that says something, the last workflow of the cutoff.
-- Out: how many, and when the last such event was. Index: a range of punctual_events_final for each end.
with o as materialized (
    select s.* from generate_series(0, 3) f cross join lateral (
        select e.final, e.at, e.job_id, e.n from punctual_events e
        where e.final = f and e.at >= $5::timestamptz and e.at <= $1::timestamptz and e.attempt is not null
        order by e.at limit $4::int8) s
    order by s.at limit $4::int8),
a as (
    update punctual_events e set attempt = null, outcome = null, worker_id = null, error = null
    from o where e.final = o.final and e.at = o.at and e.job_id = o.job_id and e.n = o.n returning 1),
l as (
    delete from punctual_logs where (job_id, run, line, at) in (
        select job_id, run, line, at from punctual_logs where at <= $1::timestamptz limit $4::int8) returning 1),
t as (delete from punctual_rollups where hour < $2::timestamptz returning 1),
w as (delete from punctual_workers where seen_at <= $3::timestamptz returning 1),
f as (
    delete from punctual_workflows where id in (
        select w.id from punctual_workflows w
        where w.id <= $6::uuid and w.updated_at <= $1::timestamptz and not exists (select from punctual_nodes n where n.workflow = w.id)
            and not exists (select from punctual_ends_pending e where e.workflow = w.id)
        limit $4::int8) returning 1)
select (select count(*) from a) + (select count(*) from l) + (select count(*) from t) + (select count(*) from w) + (select count(*) from f), (select max(at) from o);

-- name: undispatched
-- Jobs that are queued, or will be soon, and that the dispatcher does not know. In: until when, how many. Out: lane, time, id.
-- Index: the heads of punctual_ready_undispatched and punctual_due_undispatched.
(select lane, run_at, id from punctual_ready where not dispatched and limit_key is null order by queued_at limit $2::int8)
union all
(select lane, run_at, id from punctual_due where not dispatched and run_at <= $1::timestamptz order by run_at limit $2::int8);

-- name: unlock
-- Frees a lock. In: the time (or null), name, owner. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = '1970-01-01Z'
where name = $2::text and owner = $3::text and expires_at > coalesce($1::timestamptz, now());

-- name: upcoming
-- The schedules that run next. In: after which time and name, until when, how many. Index: punctual_schedules_next.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled and next_run_at is not null
    and (next_run_at, name) > ($1::timestamptz, $2::text) and next_run_at <= $3::timestamptz
order by next_run_at, name limit $4::int8;

-- name: workers
-- All workers on the register.
select id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by from punctual_workers order by started_at, id;

-- name: workflow
-- A workflow. In: id. Index: primary key; then what is yet to be added up, which is little.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from punctual_workflows w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
where w.id = $1::uuid;

-- name: workflow_add
-- Stores a workflow. In: the time (or null), id, name, who submitted it, how many jobs it has.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total)
values ($2::uuid, $3::text, $4::text, coalesce($1::timestamptz, now()), coalesce($1::timestamptz, now()), $5::int4);

-- name: workflows
-- Workflows, latest first. In: before which id, how many. Index: the primary key, backwards; then what is yet to be added up, which is little.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from (select * from punctual_workflows where id < $1::uuid order by id desc limit $2::int8) w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
order by w.id desc;
