-- How many jobs of a queue are held, and how many of its slots cancelled ones occupy. In: queue, now.
-- Index: a range of the primary key, and of punctual_occupied_slots_limit_key. What applications have not committed holds none.
select (select coalesce(sum(n), 0) from punctual_counts with (readcommittedlock, readpast, rowlock) where queue = @P1 and status = 'processing')
    + (select count(*) from punctual_occupied_slots where queue = @P1 and lease_until > @P2)
