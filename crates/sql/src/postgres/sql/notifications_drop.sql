-- Removes old messages, of the oldest so many. In: the time (or null), how old, how many. Their numbers go with their times. Index: the primary key.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit $3)
    and created_at < coalesce($1::timestamptz, now()) - $2::int8 * interval '1 microsecond'
