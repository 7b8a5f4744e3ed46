-- How far transactions have come: the time, the number before which all have begun, and those that have not ended. Whatever has a lesser number and
-- is not among them has ended, and can be seen by the next statement if it was committed. In: the time (or null).
-- By locks, which are there until the end can be seen by all.
select {now}, pg_snapshot_xmax(pg_current_snapshot())::text::int8,
    array(select l.transactionid::text::int8 from pg_locks l
          where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted)
