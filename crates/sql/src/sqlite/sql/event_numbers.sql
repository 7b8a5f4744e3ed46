-- The numbers of events after one. In: its number, how many. Index: a range of the primary key.
select seq from punctual_events where seq > ?1 order by seq limit ?2
