-- How many jobs of a key are held, and how many of its slots cancelled ones occupy. In: queue, key, now.
-- Index: punctual_running_gate, punctual_occupied_slots_gate.
select (select count(*) from punctual_running where queue = ?1 and gate = ?2)
    + (select count(*) from punctual_occupied_slots where queue = ?1 and gate = ?2 and lease_until > ?3)
