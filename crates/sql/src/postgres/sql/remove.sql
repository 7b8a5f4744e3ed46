-- Removes every trace of jobs that nobody runs. In: ids, when each is scheduled for. Out: how many.
-- Index: primary keys, and punctual_events_final from each job's last event backwards.
with recursive u as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
j as (
    delete from punctual_jobs j using u where j.scheduled_at = u.scheduled_at and j.id = u.id returning j.*),
story (id, at) as (
    select j.id, j.updated_at from punctual_jobs j join u on j.scheduled_at = u.scheduled_at and j.id = u.id
    union
    select s.id, e.previous_at from story s join punctual_events e on {any_end} and e.at = s.at and e.job_id = s.id where e.previous_at is not null),
e as (delete from punctual_events e using story s where {any_end} and e.at = s.at and e.job_id = s.id),
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
    select distinct queue, updated_at, {key} from j where status = 'queued' and {key} is not null),
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
select count(*) from j
