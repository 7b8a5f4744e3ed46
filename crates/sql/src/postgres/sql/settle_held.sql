-- The executions that settle.sql ends.
    delete from punctual_running r using {rows}
    -- Not `r.id = s.id`: while the table is known to be empty, the server would plan to read it whole, in the order of ids, for a join.
    where r.id = any (array[s.id]) and r.run = s.run and r.worker_id = {s.worker_id} and (not {s.only_if_expired} or r.lease_until <= {now}){unless_flow}
    returning r.id, s.scheduled_at, r.run, r.attempt, r.worker_id, r.started_at, r.queued_at, r.events, r.lane, r.keep_for_ms,
        r.user_id, r.flow, r.limit_key, s.result, r.run_at{returning}
