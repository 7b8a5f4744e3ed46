-- The last event of a job that has come from another store. In: seq, the event. Index: primary key.
update j set last_event = i.event from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', event bigint '$[1]') i on j.seq = i.seq
