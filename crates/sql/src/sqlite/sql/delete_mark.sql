-- A key has been looked at. In: queue, time, key. Index: the whole primary key.
delete from punctual_limit_wakeups where queue = ?1 and at = ?2 and key = ?3
