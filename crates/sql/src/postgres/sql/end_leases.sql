-- Ends the leases of a worker now, but for what is being settled at this moment. In: the time (or null), the worker. Rows changed: how many.
-- Reads the whole table, which is as small as the fleet's concurrency.
update punctual_running r set lease_until = {now} where r.ctid = any (array(
    select ctid from punctual_running where worker_id = $2::uuid and lease_until > {now} for update skip locked))
