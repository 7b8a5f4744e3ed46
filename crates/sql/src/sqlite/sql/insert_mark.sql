-- A key is to be looked at, from a time on. In: queue, time, key.
insert or ignore into punctual_limit_wakeups (queue, at, key) values (?1, ?2, ?3)
