-- New numbers for events, which come in the order in which they are given out. Nobody gets any of those between them, unless somebody takes long.
-- In: a document with a line for each. Out: the numbers. Lock: `punctual numbers`, for this long.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual numbers', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 1000;
select next value for punctual_event_sequence from openjson(@P1);
if @lock >= 0 exec sp_releaseapplock @Resource = 'punctual numbers', @LockOwner = 'Transaction'
