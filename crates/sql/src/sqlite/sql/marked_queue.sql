-- The next queue that has keys to be looked at, after ?1. Index: one step in the primary key.
select queue from punctual_limit_wakeups where queue > ?1 order by queue limit 1
