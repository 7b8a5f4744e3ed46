-- The next name of which a key has anything queued, after @P3. In: queue, key, name. Index: one step in the primary key.
select top (1) name from punctual_keyed where queue = @P1 and hash = hashbytes('sha2_256', @P2) and name > @P3 order by name
