-- In: queue, now. Index: all of the queue's.
delete from punctual_limit_starts where queue = @P1 and at > @P2
