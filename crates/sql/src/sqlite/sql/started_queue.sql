-- The next queue of which starts are known, after ?1. Index: one step in the primary key.
select queue from punctual_limit_starts where queue > ?1 order by queue limit 1
