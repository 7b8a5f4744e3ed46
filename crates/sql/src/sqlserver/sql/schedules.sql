-- A page of schedules. In: after which name, how many. Index: primary key.
select top (@P2) id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at, updated_by, name
from punctual_schedules where name > @P1 order by name
