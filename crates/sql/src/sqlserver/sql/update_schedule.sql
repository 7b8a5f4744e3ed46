-- A schedule as it is from now on, if nobody has changed it meanwhile. In: its columns. Index: primary key.
update punctual_schedules set definition = @P3, enabled = @P4, problem = @P5, revision = @P6 + 1, last_run_at = @P7, next_run_at = @P8,
    last_job = @P9, created_at = @P10, updated_at = @P11, updated_by = @P12
where name = @P1 and id = @P2 and revision = @P6
