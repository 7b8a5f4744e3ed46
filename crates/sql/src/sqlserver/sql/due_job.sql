-- What a job needs whose time has come; a damaged one has no key, and the claim that gets it sets it aside. In: job. Out: its status, its lane, its last event, its key, whether it is a suspect. Index: primary key.
select j.status, j.queue, j.name, j.priority, j.last_event, case when isjson(j.options) = 1 then json_value(j.options, '$.concurrency_key') end, iif(j.crash_count > 0, 1, 0), i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
