-- Adds up the changes of users' counters.
with d as (delete from punctual_pending_new returning *)
insert into punctual_pending as c (user_id, name, n)
select user_id, name, sum(n) from d group by user_id, name order by user_id, name
on conflict (user_id, name) do update set n = c.n + excluded.n
