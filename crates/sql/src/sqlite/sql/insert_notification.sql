-- Stores a message. In: user, message, job, now. Out: its number.
insert into punctual_notifications (user_id, message, job_id, created_at) values (?1, ?2, ?3, ?4) returning id
