-- Lets a job wait no longer. In: run_at, id. Rows changed: 1 if it did. Index: the whole primary key.
delete from punctual_due where run_at = $1::timestamptz and id = $2::uuid
