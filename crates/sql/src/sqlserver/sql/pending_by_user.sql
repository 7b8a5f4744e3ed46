-- Unfinished jobs by user and name. Reads the whole table: one row for each user and name that has any, and what has come since these were added up.
-- Nobody adds rows up meanwhile; what nobody has committed counts nothing.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select user_id, name, sum(n) from punctual_pending with (readcommittedlock, readpast, rowlock) group by user_id, name having sum(n) > 0;
commit
