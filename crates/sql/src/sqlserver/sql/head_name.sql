-- The next name of which a key of queue @P1 has something to start, after @P2. Index: one step in the primary key.
select top (1) name from punctual_limit_heads where queue = @P1 and name > @P2 order by name
