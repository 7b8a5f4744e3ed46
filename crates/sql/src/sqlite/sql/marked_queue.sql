-- The next queue that has keys to be looked at, after ?1. Index: one step in the primary key.
select queue from punctual_marks where queue > ?1 order by queue limit 1
