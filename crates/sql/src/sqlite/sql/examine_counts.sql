-- How many jobs there truly are. Reads everything.
select queue, name, status, count(*) from punctual_jobs_now group by queue, name, status
