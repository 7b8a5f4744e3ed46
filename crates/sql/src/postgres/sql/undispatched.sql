-- Jobs that are queued, or will be soon, and that the dispatcher does not know. In: until when, how many. Out: lane, time, id.
-- Index: the heads of punctual_ready_undispatched and punctual_due_undispatched.
(select lane, run_at, id from punctual_ready where not dispatched and limit_key is null order by queued_at limit $2::int8)
union all
(select lane, run_at, id from punctual_due where not dispatched and run_at <= $1::timestamptz order by run_at limit $2::int8)
