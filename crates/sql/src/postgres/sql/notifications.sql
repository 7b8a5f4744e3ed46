-- name: insert_notifications
-- Stores messages. In: the time (or null), users, messages, jobs. Out: the id before the first of theirs, and the time.
-- Locks: the row with the last id, until the commit.
with updated_notifications_last as (
    update punctual_notifications_last set id = id + cardinality($3::text[]) returning id - cardinality($3::text[]) as before),
inserted_notifications as (
    insert into punctual_notifications (id, user_id, message, job_id, created_at)
    select updated_notifications_last.before + n.place, n.user_id, n.message, n.job_id, coalesce($1::timestamptz, now())
    from updated_notifications_last, unnest($2::text[], $3::text[], $4::uuid[]) with ordinality as n (user_id, message, job_id, place))
select before, coalesce($1::timestamptz, now()) from updated_notifications_last

-- name: notifications
-- Messages after one, oldest first. In: its id, the limit. Index: the primary key.
select id, user_id, message, job_id, created_at from punctual_notifications where id > $1 order by id limit $2

-- name: notifications_of_user
-- Messages after one to a user and to all users, oldest first. In: user, its id, the limit. Index: two ranges of
-- punctual_notifications_user, merged.
select id, user_id, message, job_id, created_at from (
    (select * from punctual_notifications where user_id = $1 and id > $2 order by id limit $3)
    union all
    (select * from punctual_notifications where user_id is null and id > $2 order by id limit $3)) n
order by id limit $3

-- name: last_notification
-- The id of the last message that was ever stored.
select id from punctual_notifications_last

-- name: prune_notifications
-- Deletes old messages among the oldest ones. In: the time (or null), the age in microseconds, the limit. Ids are in the order of time.
-- Index: the primary key.
delete from punctual_notifications
where id in (select id from punctual_notifications order by id limit $3)
    and created_at < coalesce($1::timestamptz, now()) - $2::int8 * interval '1 microsecond'
