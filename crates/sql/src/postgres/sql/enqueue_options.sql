-- The part of enqueue.sql for what few jobs have: a time to wait for, labels, a user, an end at restart.
d as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status, dispatched)
    select run_at, id, scheduled_at, created_at, lane, status, {due_dispatched} from {new} where status = 'scheduled'),
l as (
    insert into punctual_labels (kind, value, scheduled_at, id)
    select 'user', user_id, scheduled_at, id from {new} where user_id is not null
    union all
    select 'correlation', correlation_id, scheduled_at, id from {new} where correlation_id is not null
    union all
    select 'tag', tag, scheduled_at, id from {new}, json_array_elements_text(options::json -> 'tags') tag where options is not null
    union all
    select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from {new}
    where options::json #>> '{occurrence,schedule}' is not null
    on conflict do nothing),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, created_at, {key} from {new} where status = 'queued' and {key} is not null),
f as (insert into punctual_ephemeral (id, created_at) select id, created_at from {new} where ephemeral),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, count(*) from {new} where user_id is not null group by user_id, name),
