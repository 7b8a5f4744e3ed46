-- The next name that queue ?1 holds anything ready of, after ?2. Index: one step in the primary key.
select name from punctual_ready where queue = ?1 and name > ?2 order by name limit 1
