-- In: queue, now. Index: all of the queue's.
delete from punctual_starts where queue = @P1 and at > @P2
