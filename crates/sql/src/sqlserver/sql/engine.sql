-- name: settings
-- The settings of a new connection: those that filtered indexes need, row counts, and that a failed statement ends its transaction.
set ansi_nulls, ansi_padding, ansi_warnings, arithabort, concat_null_yields_null, quoted_identifier on;
set numeric_roundabort off;
set nocount off;
set xact_abort on;
set transaction isolation level read committed;
set lock_timeout 30000

-- name: version
-- The version text of the server.
select @@version

-- name: alone
-- Begins an operation that excludes all other writers.
-- Out: the result of the lock request, the time, the number of open transactions. Lock: `punctual`, until the end of the transaction.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 60000;
select @lock, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount

-- name: beside
-- Begins an operation that runs concurrently with other writers.
-- Out: the result of the lock request, the time, the number of open transactions. Lock: `punctual`, until the end of the transaction.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select @lock, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount

-- name: within
-- Begins an operation within an application's own transaction, with a savepoint to which the operation can be rolled back.
-- Out: as those that take a lock, which this does not; and whether the application has switched off row counts.
if @@trancount > 0 save transaction punctual;
select 0, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount, @@options & 512

-- name: undo_within
-- Rolls back an operation within an application's own transaction. Out: 1 if the transaction can continue.
if xact_state() = 1 rollback transaction punctual;
select xact_state()

-- name: sums
-- Begins a roll-up of counters: they cannot be read meanwhile.
-- Out: the result of the lock request, the time, the number of open transactions. Lock: `punctual sums`, until the end of the transaction.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual sums', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 60000;
select @lock, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()), @@trancount

-- name: peek
-- Whether any job is queued, or due by a time. In: the time. Locks: none; rows locked by other transactions are skipped. Index: one step in
-- each primary key.
select case when exists (select 1 from punctual_ready with (readcommittedlock, readpast, rowlock))
    or exists (select 1 from punctual_limit_heads with (readcommittedlock, readpast, rowlock))
    or exists (select 1 from punctual_limit_wakeups with (readcommittedlock, readpast, rowlock) where at <= @P1)
    or exists (select 1 from punctual_due with (readcommittedlock, readpast, rowlock) where run_at <= @P1) then 1 else 0 end

-- name: number_events
-- New numbers for events, in ascending order. No other transaction gets a number between them, unless the lock is not granted within a
-- second. In: a document with one line per number. Out: the numbers. Lock: `punctual numbers`, while this runs.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual numbers', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 1000;
select next value for punctual_event_sequence from openjson(@P1);
if @lock >= 0 exec sp_releaseapplock @Resource = 'punctual numbers', @LockOwner = 'Transaction'

-- name: roll_up_counts
-- Merges rows of the same queue, name and status, in a batch that is small enough to be quick. Locks: `punctual` and `punctual sums`.
declare @some table (queue nvarchar(256) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2,
    status varchar(16) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_counts with (readcommittedlock, readpast, rowlock)
output deleted.queue, deleted.name, deleted.status, deleted.n into @some
where exists (select 1 from punctual_counts o with (readcommittedlock, readpast, rowlock)
    where o.queue = punctual_counts.queue and o.name = punctual_counts.name and o.status = punctual_counts.status and o.id <> punctual_counts.id);
insert into punctual_counts (queue, name, status, n)
select queue, name, status, sum(n) from @some group by queue, name, status having sum(n) <> 0

-- name: roll_up_pending
-- Merges rows of the same user and name, in a batch that is small enough to be quick. Locks: `punctual` and `punctual sums`.
declare @some table (user_id nvarchar(512) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_pending with (readcommittedlock, readpast, rowlock)
output deleted.user_id, deleted.name, deleted.n into @some
where exists (select 1 from punctual_pending o with (readcommittedlock, readpast, rowlock)
    where o.user_id = punctual_pending.user_id and o.name = punctual_pending.name and o.id <> punctual_pending.id);
insert into punctual_pending (user_id, name, n)
select user_id, name, sum(n) from @some group by user_id, name having sum(n) <> 0

-- name: roll_up_rollups
-- Merges rows of the same hour, name, queue, measure and bucket, in a batch that is small enough to be quick. In: the first hour, as old
-- hours need not be merged again. Index: a range of the primary key. Locks: `punctual` and `punctual sums`.
declare @some table (hour bigint, name nvarchar(256) collate Latin1_General_BIN2, queue nvarchar(256) collate Latin1_General_BIN2,
    measure varchar(16) collate Latin1_General_BIN2, bucket int, n bigint);
delete top (20000) from punctual_rollups with (readcommittedlock, readpast, rowlock)
output deleted.hour, deleted.name, deleted.queue, deleted.measure, deleted.bucket, deleted.n into @some
where hour >= @P1 and exists (select 1 from punctual_rollups o with (readcommittedlock, readpast, rowlock)
    where o.hour = punctual_rollups.hour and o.name = punctual_rollups.name and o.queue = punctual_rollups.queue
        and o.measure = punctual_rollups.measure and o.bucket = punctual_rollups.bucket and o.id <> punctual_rollups.id);
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select hour, name, queue, measure, bucket, sum(n) from @some group by hour, name, queue, measure, bucket having sum(n) <> 0

-- name: create_schema
-- Creates the table of applied migrations.
if object_id('punctual_schema') is null create table punctual_schema (
    version    int           not null primary key,
    name       nvarchar(256) not null,
    checksum   varchar(64)   not null,
    applied_at bigint        not null
)

-- name: lock_schema
-- Of several processes that start at once, only one applies migrations. Out: the result of the lock request. Lock: `punctual schema`, until
-- it is released.
declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual schema', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 60000;
select @lock

-- name: unlock_schema
-- Releases the lock `punctual schema`.
exec sp_releaseapplock @Resource = 'punctual schema', @LockOwner = 'Session'

-- name: migrations
-- The applied migrations, oldest first. Index: the whole primary key.
select version, name, checksum, applied_at from punctual_schema order by version

-- name: insert_migration
-- Records an applied migration. In: version, name, checksum.
insert into punctual_schema (version, name, checksum, applied_at)
values (@P1, @P2, @P3, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()))
