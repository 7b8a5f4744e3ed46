-- The last event of a job that has come from another store. In: seq, the event. Index: primary key.
update punctual_jobs set last_event = @P2 where seq = @P1
