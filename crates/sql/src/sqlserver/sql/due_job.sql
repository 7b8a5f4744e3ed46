-- What a job needs whose time has come. In: job. Out: its status, its lane, its last event, its key. Index: primary key.
select status, queue, name, priority, last_event, json_value(extras, '$.concurrency_key') from punctual_jobs where seq = @P1
