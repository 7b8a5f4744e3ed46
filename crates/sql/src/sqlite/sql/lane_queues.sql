-- The next queue that holds anything ready, after ?1. Index: one step in the primary key.
select queue from punctual_ready where queue > ?1 order by queue limit 1
