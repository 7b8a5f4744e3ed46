-- The next name of which a key of queue ?1 has something to start, after ?2. Index: one step in the primary key.
select name from punctual_limit_heads where queue = ?1 and name > ?2 order by name limit 1
