-- An operation begins within a transaction of an application's own.
-- Out: as those that take a lock, which this does not.
select 0, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount
