-- Something was done to a queue. In: queue, now, by whom, what.
insert into punctual_queue_events (queue, at, actor, action) values (?1, ?2, ?3, ?4)
