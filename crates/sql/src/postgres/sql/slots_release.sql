-- Executions of cancelled jobs occupy their slots no longer. In: the time (or null), ids, runs, workers, in the order of ids. Out: how many did.
-- A key is looked at again now, and not when the lease ends, unless another one ends then. Index: primary key, punctual_limit_wakeups_time,
-- punctual_occupied_slots_limit_key.
with d as (
    delete from punctual_occupied_slots s using unnest($2::uuid[], $3::int4[], $4::uuid[]) u (id, run, worker_id)
    where s.job_id = any (array[u.id]) and s.run = u.run and s.worker_id = u.worker_id returning s.*),
{freed}
