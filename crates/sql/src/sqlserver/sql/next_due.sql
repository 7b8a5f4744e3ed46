-- When the next job's time comes. Index: the first entry of the primary key.
select min(run_at) from punctual_due with (readcommittedlock, readpast, rowlock)
