-- How many jobs of a queue are held, and how many of its slots cancelled ones occupy. In: queue, now.
-- Index: a range of the counters' primary key, and of punctual_occupied_slots_limit_key.
select (select coalesce(sum(n), 0) from punctual_counts where queue = ?1 and status = 'processing')
    + (select count(*) from punctual_occupied_slots where queue = ?1 and lease_until > ?2)
