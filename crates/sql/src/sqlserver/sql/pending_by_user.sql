-- Unfinished jobs by user and name. Reads the whole table: one row for each user and name that has any, and what has come since these were added up.
select user_id, name, sum(n) from punctual_pending group by user_id, name having sum(n) > 0
