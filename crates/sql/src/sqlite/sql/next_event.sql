-- The number of the next event: no event had it, not even one that is gone. Index: the end of the primary key.
select max(coalesce((select max(seq) from punctual_events), 0), (select last from punctual_event_numbers where only_one = 1)) + 1
