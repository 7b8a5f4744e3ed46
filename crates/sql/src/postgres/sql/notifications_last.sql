-- The number of the last message that ever was.
select id from punctual_notifications_last
