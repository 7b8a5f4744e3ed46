-- An operation begins beside which nobody else writes.
-- Out: how that went, the time, whether this is a transaction at all. Lock: `punctual`, until the end of the transaction.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 60000;
select @lock, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount
