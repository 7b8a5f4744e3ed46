-- The next name of which a key has anything queued, after ?3. In: queue, key, name. Index: one step in the primary key.
select name from punctual_keyed where queue = ?1 and key = ?2 and name > ?3 order by name limit 1
