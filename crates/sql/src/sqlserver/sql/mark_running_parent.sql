-- The same for the execution under way, if there is one. In: id. Index: primary key.
update punctual_running set flow = 1 where job_id = @P1 and flow = 0
