-- A key has been looked at. In: time, queue, key. Index: the whole primary key.
delete from punctual_marks where at = ?1 and queue = ?2 and key = ?3
