-- A new schedule, if there is none of its name. In: its columns.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
    updated_at, updated_by)
values (?1, ?2, ?3, ?4, ?5, ?6 + 1, ?7, ?8, ?9, ?10, ?11, ?12) on conflict (name) do nothing
