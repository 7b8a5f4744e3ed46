-- What a claim must know of a queued job to hold it. In: seq. Index: primary key.
select id, attempt, run, keep_for_ms, user_id, last_event, flow from punctual_jobs where seq = @P1
