-- What was counted in some hours. In: first hour, end. Index: a range of the primary key.
-- Nobody adds rows up meanwhile; what nobody has committed counts nothing.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select name, queue, measure, bucket, sum(n) from punctual_rollups with (readcommittedlock, readpast, rowlock)
where hour >= @P1 and hour < @P2 group by name, queue, measure, bucket;
commit
