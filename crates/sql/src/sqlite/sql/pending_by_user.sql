-- Unfinished jobs by user and name. Index: all of punctual_jobs_pending_user, nothing else.
select user_id, name, count(*) from punctual_jobs
where user_id is not null and finished_at is null group by user_id, name
