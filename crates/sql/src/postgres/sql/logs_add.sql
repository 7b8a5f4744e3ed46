-- Lines of logs, of jobs that exist; lines that are there already (a write that was tried again) stay.
-- In: ids, when each is scheduled for, runs, lines, times, levels, messages. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select u.id, u.run, u.line, u.at, u.level, u.message
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::int4[], $5::timestamptz[], $6::text[], $7::text[])
    u (id, scheduled_at, run, line, at, level, message)
where exists (select from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id)
on conflict do nothing
