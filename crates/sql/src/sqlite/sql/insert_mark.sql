-- A key is to be looked at, from a time on. In: time, queue, key.
insert or ignore into punctual_marks (at, queue, key) values (?1, ?2, ?3)
