-- How many jobs of a key are held, and how many of its slots cancelled ones occupy. In: queue, key, now.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key.
select (select count(*) from punctual_running where queue = ?1 and limit_key = ?2)
    + (select count(*) from punctual_occupied_slots where queue = ?1 and limit_key = ?2 and lease_until > ?3)
