-- name: schedules
-- A page of schedules. In: the name to start after, the limit. Index: primary key.
select top (@P2) id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > @P1 order by name

-- name: schedule
-- One schedule. In: its name. Index: primary key.
select id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name = @P1

-- name: upcoming
-- The schedules that run next. In: the time and name to start after, the last time, the limit. Index: punctual_schedules_next.
select top (@P4) id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled = 1 and next_run_at is not null and (next_run_at > @P1 or next_run_at = @P1 and name > @P2) and next_run_at <= @P3
order by next_run_at, name

-- name: insert_schedule
-- Stores a schedule, unless its name exists. In: its columns.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
    updated_at, updated_by)
select @P1, @P2, @P3, @P4, @P5, @P6 + 1, @P7, @P8, @P9, @P10, @P11, @P12 where not exists (select 1 from punctual_schedules where name = @P1)

-- name: update_schedule
-- Updates a schedule, if its revision is unchanged. In: its columns. Index: primary key.
update punctual_schedules set definition = @P3, enabled = @P4, problem = @P5, revision = @P6 + 1, last_run_at = @P7, next_run_at = @P8,
    last_job = @P9, created_at = @P10, updated_at = @P11, updated_by = @P12
where name = @P1 and id = @P2 and revision = @P6

-- name: remove_schedule
-- Deletes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = @P1

-- name: insert_schedule_event
-- Adds to the history of a schedule. In: its name, now, actor, action.
insert into punctual_schedule_events (schedule, at, actor, action) values (@P1, @P2, @P3, @P4)

-- name: schedule_events
-- The history of a schedule, latest first. In: its name, the limit. Index: punctual_schedule_events_schedule, backwards.
select top (@P2) at, actor, action from punctual_schedule_events where schedule = @P1 order by id desc
