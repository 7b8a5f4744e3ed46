-- When a job may start. In: its place. Index: rowid.
select run_at from punctual_jobs where seq = ?1
