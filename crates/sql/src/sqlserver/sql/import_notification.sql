-- A message that another store kept. In: number, user, message, job, time. Rows changed: 0 if it is known. Index: primary key.
insert into punctual_notifications (id, user_id, message, job_id, created_at) select @P1, @P2, @P3, @P4, @P5
where not exists (select 1 from punctual_notifications where id = @P1)
