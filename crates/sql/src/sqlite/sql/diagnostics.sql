-- name: check_counts
-- The actual number of jobs by queue, name and status. Reads everything.
select queue, name, status, count(*) from punctual_jobs_now group by queue, name, status

-- name: check_pending
-- The actual number of unfinished jobs by user and name. Reads everything.
select user_id, name, count(*) from punctual_jobs where user_id is not null and finished_at is null group by user_id, name

-- name: check_indexes
-- The number of jobs without a row in the tables that claims read, and of rows there without a matching job. Reads everything.
select
    (select count(*) from punctual_jobs_now j where j.status = 'queued' and not exists (select 1 from punctual_ready r
        where r.queue = j.queue and r.name = j.name and r.priority = j.priority + 16 * (j.crash_count > 0) and r.run_at = j.run_at and r.job = j.seq
            and j.options ->> 'concurrency_key' is null)
        and not exists (select 1 from punctual_keyed k where k.queue = j.queue and k.key = j.options ->> 'concurrency_key'
            and k.name = j.name and k.priority = j.priority + 16 * (j.crash_count > 0) and k.run_at = j.run_at and k.job = j.seq))
  + (select count(*) from punctual_keyed k left join punctual_jobs j on j.seq = k.job where j.status is not 'queued')
  -- Claims must know every key with queued jobs: by a head, by a wakeup, or because one of its jobs is running.
  + (select count(*) from (select distinct queue, key from punctual_keyed) k
        where not exists (select 1 from punctual_limit_heads h where h.queue = k.queue and h.key = k.key)
            and not exists (select 1 from punctual_limit_wakeups m where m.queue = k.queue and m.key = k.key)
            and not exists (select 1 from punctual_running r where r.queue = k.queue and r.limit_key = k.key))
  + (select count(*) from punctual_limit_heads h where not exists (select 1 from punctual_limit_wakeups m
            where m.queue = h.queue and m.key = h.key)
        and not exists (select 1 from punctual_keyed k where k.job = h.job and k.queue = h.queue and k.key = h.key))
  + (select count(*) from punctual_jobs_now j where j.status in ('scheduled', 'retrying') and not exists
        (select 1 from punctual_due d where d.run_at = j.run_at and d.job = j.seq))
  + (select count(*) from punctual_jobs j where j.status = 'waiting' and not exists
        (select 1 from punctual_waiting w where w.run_at = j.run_at and w.job = j.seq))
  + (select count(*) from punctual_waiting w left join punctual_jobs j on j.seq = w.job where j.status is not 'waiting')
  + (select count(*) from punctual_jobs j where j.status = 'waiting' and j.waiting_on <>
        (select count(*) from punctual_dependencies d where d.child = j.seq and d.succeeded is null))
  + (select count(*) from punctual_dependencies d left join punctual_jobs p on p.seq = d.parent
        left join punctual_jobs c on c.seq = d.child
        where p.seq is null or c.seq is null
            or (d.succeeded is null and c.status = 'waiting' and (p.flow = 0 or p.status in ('succeeded', 'deleted'))))
  + (select count(*) from punctual_nodes n left join punctual_jobs j on j.seq = n.job where j.seq is null)
  + (select count(*) from punctual_ready r left join punctual_jobs j on j.seq = r.job where j.status is not 'queued')
  + (select count(*) from punctual_due d left join punctual_jobs j on j.seq = d.job
        where j.status is null or j.status not in ('scheduled', 'retrying'))
  + (select count(*) from punctual_jobs j where j.status = 'deleted' and not exists
        (select 1 from punctual_deleted d where d.deleted_at = j.updated_at and d.job = j.seq))
  + (select count(*) from punctual_deleted d left join punctual_jobs j on j.seq = d.job where j.status is not 'deleted')
  + (select count(*) from punctual_jobs j where j.status = 'dead' and not exists
        (select 1 from punctual_dead d where d.died_at = j.finished_at and d.job = j.seq and d.name = j.name))
  + (select count(*) from punctual_dead d left join punctual_jobs j on j.seq = d.job where j.status is not 'dead')
  + (select count(*) from punctual_expiries k left join punctual_jobs j on j.seq = k.job
        where j.finished_at + j.keep_for_ms * 1000 is not k.expires_at)
  + (select count(*) from punctual_labels l left join punctual_jobs j on j.seq = l.job where j.id is not l.id)
  + (select count(*) from punctual_ephemeral e left join punctual_jobs j on j.seq = e.job where j.ephemeral is not 1)
  + (select count(*) from punctual_keys k left join punctual_jobs j on j.seq = k.job where j.unique_key is not k.key)
  + (select count(*) from punctual_running r where not exists (select 1 from punctual_jobs j where j.seq = r.job))
  -- A running execution does not occupy an additional slot.
  + (select count(*) from punctual_occupied_slots s join punctual_running r on r.job_id = s.job_id and r.run = s.run)

-- name: check_histories
-- The number of events that cannot be reached from their job's last event. Reads everything.
select
    (select count(*) from punctual_jobs_now j left join punctual_events e on e.seq = j.last_event
        where e.job is not j.seq)
  + (select count(*) from punctual_events e left join punctual_events p on p.seq = e.previous
        where e.previous is not null and p.job is not e.job)
  + abs((select count(*) from punctual_jobs) - (select count(*) from punctual_events where previous is null))
