-- name: insert_notification
-- Stores a message. In: user, message, job, now. Out: its id and time.
declare @id bigint = (select coalesce(max(id), 0) from punctual_notifications);
select @id = case when last > @id then last else @id end + 1 from punctual_notification_numbers where only_one = 1;
insert into punctual_notifications (id, user_id, message, job_id, created_at) output inserted.id, inserted.created_at values (@id, @P1, @P2, @P3, @P4)

-- name: notifications
-- Messages after one, oldest first. In: its id, the limit.
select top (@P2) id, user_id, message, job_id, created_at from punctual_notifications where id > @P1 order by id

-- name: notifications_of_user
-- Messages after one to a user and to all users, oldest first. In: user, its id, the limit. Index: two ranges, merged.
select top (@P3) * from (
select id, user_id, message, job_id, created_at from punctual_notifications where user_id = @P1 and id > @P2
union all
select id, user_id, message, job_id, created_at from punctual_notifications where user_id is null and id > @P2) n order by id

-- name: last_notification
-- The id of the last message that was ever stored.
declare @last bigint = (select coalesce(max(id), 0) from punctual_notifications);
select case when last > @last then last else @last end from punctual_notification_numbers where only_one = 1

-- name: prune_notifications
-- Deletes old messages among the oldest ones. In: the cutoff, the limit. Ids are in the order of time.
set nocount on;
declare @last bigint = (select coalesce(max(id), 0) from punctual_notifications);
update punctual_notification_numbers set last = @last where only_one = 1 and last < @last;
set nocount off;
delete from punctual_notifications
where id in (select top (@P2) id from punctual_notifications order by id) and created_at < @P1
