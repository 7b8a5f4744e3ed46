-- When a job may start. In: its place. Index: primary key.
select run_at from punctual_jobs where seq = @P1
