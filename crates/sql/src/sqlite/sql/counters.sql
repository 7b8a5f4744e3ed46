-- name: add_count
-- Changes the number of jobs of a queue, name and status.
insert into punctual_counts (queue, name, status, n) values (?1, ?2, ?3, ?4)
on conflict do update set n = n + excluded.n

-- name: counts
-- The number of jobs. Reads the whole table: one row for each queue, name and status in use.
select queue, name, status, n from punctual_counts where n > 0

-- name: add_pending
-- Changes the number of a user's unfinished jobs of a name.
insert into punctual_pending (user_id, name, n) values (?1, ?2, ?3) on conflict do update set n = n + excluded.n

-- name: clear_pending
-- Deletes the counter of a user who has no unfinished jobs of a name. Index: primary key.
delete from punctual_pending where user_id = ?1 and name = ?2 and n = 0

-- name: pending_by_user
-- Unfinished jobs by user and name. Reads the whole table: one row for each user and name that has any.
select user_id, name, n from punctual_pending

-- name: add_rollup
-- Counts ends or starts in an hour.
insert into punctual_rollups (hour, name, queue, measure, bucket, n) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do update set n = n + excluded.n

-- name: rollups
-- Rollups of a range of hours. In: first hour, end. Index: a range of the primary key.
select name, queue, measure, bucket, sum(n) from punctual_rollups
where hour >= ?1 and hour < ?2 group by name, queue, measure, bucket

-- name: prune_rollups
-- Deletes old rollups. In: the first hour to keep. Index: the head of the primary key.
delete from punctual_rollups where hour < ?1

-- name: insert_dead
-- Records that a job has died.
insert into punctual_dead (died_at, job, name) values (?1, ?2, ?3)

-- name: delete_dead
-- Removes a dead job that is retried or deleted. Index: the whole primary key.
delete from punctual_dead where died_at = ?1 and job = ?2

-- name: dead_by_name
-- The names of jobs that died in a period and are still dead. The caller counts them: grouping them here would require a sort.
-- In: since, until. Index: a range of the primary key, nothing else.
select name from punctual_dead where died_at >= ?1 and died_at < ?2
