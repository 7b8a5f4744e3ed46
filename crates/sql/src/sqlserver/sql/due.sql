-- Jobs whose time has come, longest overdue first.
-- In: now, how many. Out: run_at, job. Index: the head of the primary key.
select top (@P2) run_at, job from punctual_due with (readcommittedlock, readpast, rowlock) where run_at <= @P1 order by run_at, job
