-- The next queue that has keys to be looked at, after @P1. Index: one step in the primary key.
select top (1) queue from punctual_limit_wakeups where queue > @P1 order by queue
