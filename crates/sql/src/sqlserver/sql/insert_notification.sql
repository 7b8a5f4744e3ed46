-- Stores a message. In: user, message, job, now. Out: its number.
declare @id bigint = (select coalesce(max(id), 0) from punctual_notifications);
select @id = case when last > @id then last else @id end + 1 from punctual_notification_numbers where only_one = 1;
insert into punctual_notifications (id, user_id, message, job_id, created_at) output inserted.id values (@id, @P1, @P2, @P3, @P4)
