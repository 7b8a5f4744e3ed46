-- How many events are not found from their job's last one. Reads everything.
select
    (select count(*) from punctual_jobs_now j left join punctual_events e on e.seq = j.last_event
        where e.job is not j.seq)
  + (select count(*) from punctual_events e left join punctual_events p on p.seq = e.previous
        where e.previous is not null and p.job is not e.job)
  + abs((select count(*) from punctual_jobs) - (select count(*) from punctual_events where previous is null))
