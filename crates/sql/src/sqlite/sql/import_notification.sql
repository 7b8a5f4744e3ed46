-- A message that another store kept. In: number, user, message, job, time. Rows changed: 0 if it is known. Index: primary key.
insert into punctual_notifications (id, user_id, message, job_id, created_at) values (?1, ?2, ?3, ?4, ?5) on conflict (id) do nothing
