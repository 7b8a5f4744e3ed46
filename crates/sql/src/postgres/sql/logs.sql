-- The log of a job, oldest line first. In: id, not before, how many. Index: primary key of the partitions since then.
select run, at, level, message from punctual_logs
where job_id = $1::uuid and at >= $2::timestamptz order by run, line limit $3::int8
