-- A schedule that another store knew. In: its columns. Rows changed: 1, or 0 if there is one of the name. Index: primary key.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
    updated_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) on conflict do nothing
