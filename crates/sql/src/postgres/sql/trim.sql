-- Removes old logs, counters and workers, and what old events say of executions.
-- In: cutoff of executions and logs, of counters, of workers, how many, when the first event may be that says something.
-- Out: how many, and when the last such event was. Index: a range of punctual_events_at.
with o as materialized (
    select at, job_id, n from punctual_events where at >= $5::timestamptz and at <= $1::timestamptz and attempt is not null
    order by at limit $4::int8),
a as (
    update punctual_events e set attempt = null, outcome = null, worker_id = null, error = null
    from o where e.at = o.at and e.job_id = o.job_id and e.n = o.n returning 1),
l as (
    delete from punctual_logs where (job_id, run, line, at) in (
        select job_id, run, line, at from punctual_logs where at <= $1::timestamptz limit $4::int8) returning 1),
t as (delete from punctual_tallies where hour < $2::timestamptz returning 1),
w as (delete from punctual_workers where seen_at <= $3::timestamptz returning 1)
select (select count(*) from a) + (select count(*) from l) + (select count(*) from t) + (select count(*) from w), (select max(at) from o)
