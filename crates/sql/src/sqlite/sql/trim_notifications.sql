-- Removes old messages, of the oldest so many. In: before when, how many. Their numbers go with their times.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit ?2) and created_at < ?1
