-- Of several processes that start at once, one brings the schema up to date. Out: how that went. Lock: `punctual schema`, until it is given back.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual schema', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 60000;
select @lock
