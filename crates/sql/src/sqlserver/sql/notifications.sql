-- Messages after one, oldest first. In: its number, how many.
select top (@P2) id, user_id, message, job_id, created_at from punctual_notifications where id > @P1 order by id
