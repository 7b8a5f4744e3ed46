-- How many jobs there are. Reads the whole table: one row for each queue, name and status in use, and what has come since these were added up.
-- Nobody adds rows up meanwhile; what nobody has committed counts nothing.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select queue, name, status, sum(n) from punctual_counts with (readcommittedlock, readpast, rowlock) group by queue, name, status having sum(n) > 0;
commit
