-- The number of the last message that ever was.
declare @last bigint = (select coalesce(max(id), 0) from punctual_notifications);
select case when last > @last then last else @last end from punctual_notification_numbers where only_one = 1
