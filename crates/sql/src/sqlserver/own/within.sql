-- An operation begins within a transaction of an application's own, which it can be taken out of again.
-- Out: as those that take a lock, which this does not; and whether the application does not want to hear how many rows were changed.
if @@trancount > 0 save transaction punctual;
select 0, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount, @@options & 512
