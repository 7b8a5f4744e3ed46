-- The next queue of which starts are known, after @P1. Index: one step in the primary key.
select top (1) queue from punctual_limit_starts where queue > @P1 order by queue
