-- What a job needs whose time has come; a damaged one has no key, and the claim that gets it sets it aside. In: job. Out: its status, its lane, its last event, its key, whether it is a suspect. Index: rowid.
select status, queue, name, priority, last_event, case when json_valid(options) then options ->> 'concurrency_key' end, crash_count > 0 from punctual_jobs where seq = ?1
