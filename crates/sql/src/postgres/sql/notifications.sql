-- name: insert_notification
-- Stores a message. In: user, message, job, the time (or null). Out: its id and time.
-- Locks: the row with the last id, until the commit.
with updated_notifications_last as (update punctual_notifications_last set id = id + 1 returning id)
insert into punctual_notifications (id, user_id, message, job_id, created_at)
select id, $1::text, $2::text, $3::uuid, coalesce($4::timestamptz, now()) from updated_notifications_last
returning id, created_at

-- name: notifications
-- Messages after one, oldest first. In: its id, the limit. Index: the primary key.
select id, user_id, message, job_id, created_at from punctual_notifications where id > $1::int8 order by id limit $2::int8

-- name: notifications_of_user
-- Messages after one to a user and to all users, oldest first. In: user, its id, the limit. Index: two ranges of
-- punctual_notifications_user, merged.
select id, user_id, message, job_id, created_at from (
    (select * from punctual_notifications where user_id = $1::text and id > $2::int8 order by id limit $3::int8)
    union all
    (select * from punctual_notifications where user_id is null and id > $2::int8 order by id limit $3::int8)) n
order by id limit $3::int8

-- name: last_notification
-- The id of the last message that was ever stored.
select id from punctual_notifications_last

-- name: prune_notifications
-- Deletes old messages among the oldest ones. In: the cutoff, the limit. Ids are in the order of time. Index: the primary key.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit $2::int8) and created_at < $1::timestamptz
