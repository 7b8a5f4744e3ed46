-- name: insert_notification
-- Stores a message. In: user, message, job, now. Out: its id and time.
insert into punctual_notifications (user_id, message, job_id, created_at) values (?1, ?2, ?3, ?4) returning id, created_at

-- name: notifications
-- Messages after one, oldest first. In: its id, the limit.
select id, user_id, message, job_id, created_at from punctual_notifications where id > ?1 order by id limit ?2

-- name: notifications_of_user
-- Messages after one to a user and to all users, oldest first. In: user, its id, the limit. Index: two ranges, merged.
select id, user_id, message, job_id, created_at from punctual_notifications where user_id = ?1 and id > ?2
union all
select id, user_id, message, job_id, created_at from punctual_notifications where user_id is null and id > ?2
order by id limit ?3

-- name: last_notification
-- The id of the last message that was ever stored.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'punctual_notifications'

-- name: prune_notifications
-- Deletes old messages among the oldest ones. In: the cutoff, the limit. Ids are in the order of time.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit ?2) and created_at < ?1
