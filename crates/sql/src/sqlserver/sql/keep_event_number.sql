-- Events are about to go, perhaps the last one: its number stays known. Index: the end of the primary key.
declare @last bigint = (select coalesce(max(seq), 0) from punctual_events with (readcommittedlock, readpast, rowlock));
update punctual_event_numbers set last = @last where only_one = 1 and last < @last
