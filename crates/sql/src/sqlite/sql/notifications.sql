-- Messages after one, oldest first. In: its number, how many.
select id, user_id, message, job_id, created_at from punctual_notifications where id > ?1 order by id limit ?2
