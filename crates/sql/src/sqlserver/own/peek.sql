-- Whether anything is queued, or due by a time. In: the time. Locks: none; what others have locked is skipped. Index: one step in each primary key.
select case when exists (select 1 from punctual_ready with (readcommittedlock, readpast, rowlock))
    or exists (select 1 from punctual_limit_heads with (readcommittedlock, readpast, rowlock))
    or exists (select 1 from punctual_limit_wakeups with (readcommittedlock, readpast, rowlock) where at <= @P1)
    or exists (select 1 from punctual_due with (readcommittedlock, readpast, rowlock) where run_at <= @P1) then 1 else 0 end
