-- The next name that queue @P1 holds anything ready of, after @P2. Index: one step in the primary key.
select top (1) name from punctual_ready with (readcommittedlock, readpast, rowlock) where queue = @P1 and name > @P2 order by name
