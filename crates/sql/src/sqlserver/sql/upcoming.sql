-- The schedules that run next. In: after which time and name, until when, how many. Index: punctual_schedules_next.
select top (@P4) id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where enabled = 1 and next_run_at is not null and (next_run_at > @P1 or next_run_at = @P1 and name > @P2) and next_run_at <= @P3
order by next_run_at, name
