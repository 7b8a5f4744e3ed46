-- Removes old messages, of the oldest so many. In: before when, how many. Their numbers go with their times.
set nocount on;
declare @last bigint = (select coalesce(max(id), 0) from punctual_notifications);
update punctual_notification_numbers set last = @last where only_one = 1 and last < @last;
set nocount off;
delete from punctual_notifications
where id in (select top (@P2) id from punctual_notifications order by id) and created_at < @P1
