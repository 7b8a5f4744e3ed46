-- Jobs that are queued, or will be soon, of which the dispatcher has not been told. In: until when, how many. Out: lane, time, id.
-- Index: the heads of punctual_ready_untold and punctual_due_untold.
(select lane, run_at, id from punctual_ready where not told and gate is null order by queued_at limit $2::int8)
union all
(select lane, run_at, id from punctual_due where not told and run_at <= $1::timestamptz order by run_at limit $2::int8)
