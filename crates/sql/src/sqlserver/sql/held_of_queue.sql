-- How many jobs of a queue are held. In: queue. Index: a range of the primary key. What applications have not committed holds none.
select coalesce(sum(n), 0) from punctual_counts with (readcommittedlock, readpast, rowlock) where queue = @P1 and status = 'processing'
