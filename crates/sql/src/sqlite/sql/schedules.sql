-- name: schedules
-- A page of schedules. In: the name to start after, the limit. Index: primary key.
select id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > ?1 order by name limit ?2

-- name: schedule
-- One schedule. In: its name. Index: primary key.
select id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name = ?1

-- name: upcoming
-- The schedules that run next. In: the time and name to start after, the last time, the limit. Index: punctual_schedules_next.
select id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled = 1 and next_run_at is not null and (next_run_at, name) > (?1, ?2) and next_run_at <= ?3
order by next_run_at, name limit ?4

-- name: insert_schedule
-- Stores a schedule, unless its name exists. In: its columns.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
    updated_at, updated_by)
values (?1, ?2, ?3, ?4, ?5, ?6 + 1, ?7, ?8, ?9, ?10, ?11, ?12) on conflict (name) do nothing

-- name: update_schedule
-- Updates a schedule, if its revision is unchanged. In: its columns. Index: primary key.
update punctual_schedules set definition = ?3, enabled = ?4, problem = ?5, revision = ?6 + 1, last_run_at = ?7, next_run_at = ?8,
    last_job = ?9, created_at = ?10, updated_at = ?11, updated_by = ?12
where name = ?1 and id = ?2 and revision = ?6

-- name: remove_schedule
-- Deletes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = ?1

-- name: insert_schedule_event
-- Adds to the history of a schedule. In: its name, now, actor, action.
insert into punctual_schedule_events (schedule, at, actor, action) values (?1, ?2, ?3, ?4)

-- name: schedule_events
-- The history of a schedule, latest first. In: its name, the limit. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = ?1 order by id desc limit ?2
