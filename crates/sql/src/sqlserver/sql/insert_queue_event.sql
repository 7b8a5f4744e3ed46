-- Something was done to a queue. In: queue, now, by whom, what.
insert into punctual_queue_events (queue, at, actor, action) values (@P1, @P2, @P3, @P4)
