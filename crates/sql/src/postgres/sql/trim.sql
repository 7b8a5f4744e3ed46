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
select (select count(*) from a) + (select count(*) from l) + (select count(*) from t) + (select count(*) from w) + (select count(*) from f), (select max(at) from o)
