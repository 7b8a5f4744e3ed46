-- name: add_count
-- Changes the number of jobs of a queue, name and status.
insert into punctual_counts (queue, name, status, n)
select i.queue, i.name, i.status, i.n
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', status varchar(16) '$[2]', n bigint '$[3]') i

-- name: counts
-- The number of jobs. Reads the whole table: one row for each queue, name and status in use, and those added since the last roll-up.
-- Rows are not rolled up meanwhile; uncommitted rows are not counted.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select queue, name, status, sum(n) from punctual_counts with (readcommittedlock, readpast, rowlock) group by queue, name, status having sum(n) > 0;
commit

-- name: add_pending
-- Changes the number of a user's unfinished jobs of a name.
insert into punctual_pending (user_id, name, n)
select i.user_id, i.name, i.n
from openjson(@P1) with (user_id nvarchar(512) '$[0]', name nvarchar(256) '$[1]', n bigint '$[2]') i

-- name: clear_pending
-- Deletes the counter of a user who has no unfinished jobs of a name. Index: primary key.
delete from punctual_pending where user_id = @P1 and name = @P2 and n = 0

-- name: pending_by_user
-- Unfinished jobs by user and name. Reads the whole table: one row for each user and name that has any, and those added since the last
-- roll-up. Rows are not rolled up meanwhile; uncommitted rows are not counted.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select user_id, name, sum(n) from punctual_pending with (readcommittedlock, readpast, rowlock) group by user_id, name having sum(n) > 0;
commit

-- name: add_rollup
-- Counts ends or starts in an hour.
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select i.hour, i.name, i.queue, i.measure, i.bucket, i.n
from openjson(@P1) with (
    hour bigint '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', measure varchar(16) '$[3]', bucket int '$[4]', n bigint '$[5]') i

-- name: rollups
-- Rollups of a range of hours. In: first hour, end. Index: a range of the primary key.
-- Rows are not rolled up meanwhile; uncommitted rows are not counted.
begin transaction;
exec sp_getapplock @Resource = 'punctual sums', @LockMode = 'Shared', @LockOwner = 'Transaction', @LockTimeout = 60000;
select name, queue, measure, bucket, sum(n) from punctual_rollups with (readcommittedlock, readpast, rowlock)
where hour >= @P1 and hour < @P2 group by name, queue, measure, bucket;
commit

-- name: prune_rollups
-- Deletes old rollups. In: the first hour to keep. Index: the head of the primary key.
delete from punctual_rollups where hour < @P1

-- name: insert_dead
-- Records that a job has died.
insert into punctual_dead (died_at, job, name)
select i.died_at, i.job, i.name
from openjson(@P1) with (died_at bigint '$[0]', job bigint '$[1]', name nvarchar(256) '$[2]') i

-- name: delete_dead
-- Removes a dead job that is retried or deleted. Index: the whole primary key.
delete t from punctual_dead t with (forceseek, rowlock) join openjson(@P1) with (died_at bigint '$[0]', job bigint '$[1]') i
on t.died_at = i.died_at and t.job = i.job

-- name: dead_by_name
-- The names of jobs that died in a period and are still dead. The caller counts them: grouping them here would require a sort.
-- In: since, until. Index: a range of the primary key, nothing else.
select name from punctual_dead where died_at >= @P1 and died_at < @P2
