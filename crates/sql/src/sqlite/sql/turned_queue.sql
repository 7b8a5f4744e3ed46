-- The next queue whose keys have taken turns, after ?1. Index: one step in the primary key.
select queue from punctual_limit_fairness where queue > ?1 order by queue limit 1
