-- Ends the leases of a worker now. Reads the whole table, which is as small as the fleet's concurrency. In: now, worker. Rows changed: how many.
update punctual_running with (rowlock) set lease_until = @P1 where worker_id = @P2 and lease_until > @P1
