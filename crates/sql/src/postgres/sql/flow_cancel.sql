-- Waiting jobs are cancelled. In: the time (or null), ids, why. Index: primary keys.
with w as (
    delete from punctual_waiting w using unnest($2::uuid[], $3::text[]) u (id, reason) where w.id = any (array[u.id])
    returning w.*, u.reason),
j as (
    update {jobs} j set status = 'cancelled', updated_at = {now}, finished_at = {now}, events = j.events + 1, waiting_on = w.waiting_on
    from w where j.scheduled_at = w.scheduled_at and j.id = w.id
    returning j.id, j.lane, j.name, j.unique_key, j.workflow_id, j.keep_for_ms, j.user_id, j.events, w.since, w.reason),
e as (
    insert into punctual_events (job_id, n, at, previous_at, lane, final, status, detail)
    select id, events, {now}, since, lane, 2, 'cancelled', reason from j),
k as (delete from punctual_keys k using j where j.unique_key is not null and k.job_id = j.id),
k2 as (
    insert into punctual_expiries (expires_at, id)
    select {now} + keep_for_ms * interval '1 millisecond', id from j where keep_for_ms is not null),
n as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, {now}, 0, 0, count(*) from j
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = j.id) group by workflow_id),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.sign * count(*) from j, (values ('waiting', -1), ('cancelled', 1)) s (status, sign) group by lane, s.status, s.sign),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from j where user_id is not null group by user_id, name)
select 1
