-- What was done to a queue, latest first. In: queue, how many. Index: punctual_queue_events_queue, backwards.
select at, actor, action from punctual_queue_events where queue = ?1 order by id desc limit ?2
