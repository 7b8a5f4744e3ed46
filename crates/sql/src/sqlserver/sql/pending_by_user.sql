-- Unfinished jobs by user and name. Reads the whole table: one row for each user and name that has any.
select user_id, name, n from punctual_pending
