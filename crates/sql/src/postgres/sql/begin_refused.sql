-- Leaves a line in the log of each job that was started and had been changed before that was recorded: cancelled, replaced, or started by another.
-- Not where the start was recorded before and the answer was lost.
-- In: the time (or null), ids, when each is scheduled for, workers, the beginning of each line. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select s.id, 1, 0, {now}, 'warn',
    s.message || case when r.id is null then j.status else 'processing' end || '), so that this execution does not count'
from unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[]) s (id, scheduled_at, worker_id, message)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = s.scheduled_at and j.id = s.id) j
left join punctual_running r on r.id = s.id
where case when r.id is null then j.run = 0 else r.worker_id <> s.worker_id end
on conflict do nothing
