-- How many unfinished jobs users truly have. Reads everything.
select user_id, name, count(*) from punctual_jobs where user_id is not null and finished_at is null group by user_id, name
