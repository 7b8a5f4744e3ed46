-- The number of the next event: no event had it, not even one that is gone. Index: the end of the primary key.
declare @last bigint = (select coalesce(max(seq), 0) from punctual_events with (readcommittedlock, readpast, rowlock));
select case when last > @last then last else @last end + 1 from punctual_event_numbers with (readcommittedlock) where only_one = 1
