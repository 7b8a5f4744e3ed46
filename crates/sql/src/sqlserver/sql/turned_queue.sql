-- The next queue whose keys have taken turns, after @P1. Index: one step in the primary key.
select top (1) queue from punctual_limit_fairness where queue > @P1 order by queue
