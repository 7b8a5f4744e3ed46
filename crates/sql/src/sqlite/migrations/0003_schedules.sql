-- Schedules with a cursor that nobody overwrites unseen. Nothing has used the table before.
drop table punctual_schedules;
create table punctual_schedules (
    name        text    not null primary key,
    id          blob    not null unique,
    definition  text    not null,
    enabled     integer not null,
    problem     text,
    -- Counts its changes.
    revision    integer not null,
    -- The last occurrence that was enqueued, the next one, and the job of the last.
    last_run_at integer,
    next_run_at integer,
    last_job    blob,
    created_at  integer not null,
    updated_at  integer not null,
    updated_by  text    not null
) strict, without rowid;
create index punctual_schedules_next on punctual_schedules (next_run_at, name) where enabled = 1 and next_run_at is not null;

-- What was done to schedules, and by whom.
create table punctual_schedule_events (
    id       integer primary key,
    schedule text    not null,
    at       integer not null,
    actor    text    not null,
    what     text    not null
) strict;
create index punctual_schedule_events_schedule on punctual_schedule_events (schedule, id);

-- The same, for people.
create view punctual_schedules_readable as
select 'sch_' || lower(hex(id)) as id, name, definition ->> 'cron' as cron, definition ->> 'zone' as zone,
       definition -> 'job' ->> 'name' as job, enabled, problem, definition ->> 'owner' as owner,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_run_at / 1e6, 'unixepoch') as last_run_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_run_at / 1e6, 'unixepoch') as next_run_at,
       'job_' || lower(hex(last_job)) as last_job,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at,
       updated_by
from punctual_schedules;
