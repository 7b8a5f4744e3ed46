-- The next queue that holds anything ready, after @P1. Index: one step in the primary key.
select top (1) queue from punctual_ready with (readcommittedlock, readpast, rowlock) where queue > @P1 order by queue
