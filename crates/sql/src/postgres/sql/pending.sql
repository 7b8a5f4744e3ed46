-- Unfinished jobs by user and name. Reads two small tables whole: one row for each user and name that has any.
select user_id, name, sum(n)::int8
from (select * from punctual_pending union all select * from punctual_pending_new) p
group by user_id, name having sum(n) > 0
