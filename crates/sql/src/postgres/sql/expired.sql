-- Executions whose lease has run out, longest ago first. One that is being settled at this moment is none of them.
-- In: the time (or null), how many, the time before which none is expected. Out: id, whether its worker has confirmed that its handler is about to start, run, worker. Index: punctual_running_lease.
select id, confirmed, run, worker_id from punctual_running where lease_until <= {now} and lease_until >= $3::timestamptz order by lease_until, id limit $2::int8 for update skip locked
