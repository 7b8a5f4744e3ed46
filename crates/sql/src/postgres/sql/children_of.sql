-- Who waits for a job, or waited. In: id, how many. Index: primary key.
select child from punctual_dependencies where parent = $1::uuid order by child limit $2::int8
