-- The next queue that has a key with something to start, after ?1. Index: one step in the primary key.
select queue from punctual_limit_heads where queue > ?1 order by queue limit 1
