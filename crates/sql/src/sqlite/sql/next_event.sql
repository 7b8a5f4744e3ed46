-- The number of the next event. Index: the end of the primary key.
select coalesce(max(seq), 0) + 1 from punctual_events
