-- Messages to a user and to everybody after one, oldest first. In: user, its number, how many. Index: punctual_notifications_user, two parts of it, merged.
select id, user_id, message, job_id, created_at from (
    (select * from punctual_notifications where user_id = $1 and id > $2 order by id limit $3)
    union all
    (select * from punctual_notifications where user_id is null and id > $2 order by id limit $3)) n
order by id limit $3
