-- A schedule that another store knew. In: its columns. Rows changed: 1, or 0 if there is one of the name. Index: primary key.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
    updated_by)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12 where not exists (select 1 from punctual_schedules where name = @P1)
