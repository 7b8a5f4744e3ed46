-- A schedule as it is from now on, if nobody has changed it meanwhile. In: its columns. Index: primary key.
update punctual_schedules set definition = ?3, enabled = ?4, problem = ?5, revision = ?6 + 1, last_run_at = ?7, next_run_at = ?8,
    last_job = ?9, created_at = ?10, updated_at = ?11, updated_by = ?12
where name = ?1 and id = ?2 and revision = ?6
