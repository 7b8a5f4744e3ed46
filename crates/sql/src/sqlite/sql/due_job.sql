-- What a job needs whose time has come. In: job. Out: its status, its lane, its last event, its key, whether it is a suspect. Index: rowid.
select status, queue, name, priority, last_event, extras ->> 'concurrency_key', crash_count > 0 from punctual_jobs where seq = ?1
