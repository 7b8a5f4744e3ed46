-- Jobs have waited for their parents. In: the time (or null), ids.
-- Out: the lanes that got something, with the earliest time in each. Index: primary keys.
with w as (delete from punctual_waiting w using unnest($2::uuid[]) u (id) where w.id = any (array[u.id]) returning w.*),
j as (
    update {jobs} j set status = case when j.run_at > {now} then 'scheduled' else 'queued' end, run_at = greatest(j.run_at, {now}),
        updated_at = {now}, events = j.events + 1, waiting_on = 0
    from w where j.scheduled_at = w.scheduled_at and j.id = w.id
    returning j.id, j.scheduled_at, j.status, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, j.{key} as limit_key, w.since),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, {now}, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key from j where status = 'queued'),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, {now}, limit_key from j where status = 'queued' and limit_key is not null),
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select run_at, id, scheduled_at, {now}, lane, status from j where status = 'scheduled'),
e as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, {now}, since, status from j),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, 'waiting', -count(*) from j group by lane
    union all
    select lane, status, count(*) from j group by lane, status)
select lane, min(run_at) from j group by lane
