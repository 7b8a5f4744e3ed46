-- name: schedules
-- A page of schedules. In: the name to start after, the limit. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > $1::text order by name limit $2::int8

-- name: schedule
-- One schedule. In: its name. Index: primary key.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name = $1::text

-- name: upcoming
-- The schedules that run next. In: the time and name to start after, the last time, the limit. Index: punctual_schedules_next.
select id, definition::text, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled and next_run_at is not null
    and (next_run_at, name) > ($1::timestamptz, $2::text) and next_run_at <= $3::timestamptz
order by next_run_at, name limit $4::int8

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
select place - 1 from given where id = any (array(select id from inserted_schedules))

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
from unchanged where s.name = unchanged.name returning unchanged.place - 1

-- name: remove_schedule
-- Deletes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = $1::text

-- name: insert_schedule_event
-- Adds to the histories of schedules. In: arrays of their names, now, actors, actions.
insert into punctual_schedule_events (schedule, at, actor, action)
select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[])

-- name: schedule_events
-- The history of a schedule, latest first. In: its name, the limit. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = $1::text order by id desc limit $2::int8
