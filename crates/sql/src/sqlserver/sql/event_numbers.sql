-- The numbers of events after one. In: its number, how many. Index: a range of the primary key.
select top (@P2) seq from punctual_events with (readcommittedlock, readpast, rowlock) where seq > @P1 order by seq
