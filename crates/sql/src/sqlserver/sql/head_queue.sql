-- The next queue that has a key with something to start, after @P1. Index: one step in the primary key.
select top (1) queue from punctual_limit_heads where queue > @P1 order by queue
