-- What a job needs whose time has come. In: job. Out: its status, its lane, its last event. Index: rowid.
select status, queue, name, priority, last_event from punctual_jobs where seq = ?1
