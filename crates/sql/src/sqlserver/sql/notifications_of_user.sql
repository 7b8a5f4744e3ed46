-- Messages to a user and to everybody after one, oldest first. In: user, its number, how many. Index: two parts of it, merged.
select top (@P3) * from (
select id, user_id, message, job_id, created_at from punctual_notifications where user_id = @P1 and id > @P2
union all
select id, user_id, message, job_id, created_at from punctual_notifications where user_id is null and id > @P2) n order by id
