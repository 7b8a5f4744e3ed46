-- Recent starts under a limit. In: queue, key (empty for the queue's own), after when. Index: a range of the primary key.
select at, n from punctual_limit_starts where queue = ?1 and key = ?2 and at > ?3
