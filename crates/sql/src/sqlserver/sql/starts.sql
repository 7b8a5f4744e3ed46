-- What a gate has started lately. In: queue, key (empty for the queue's own), after when. Index: a range of the primary key.
select at, n from punctual_starts where queue = @P1 and hash = hashbytes('sha2_256', @P2) and at > @P3
