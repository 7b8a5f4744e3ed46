-- The options of the jobs that are due, longest overdue first, as text: for when one of them is damaged.
-- In: the time (or null), the time before which nothing is expected, how many. Out: id, options. Index: the head of the primary key.
select d.id, j.options from punctual_due d join punctual_jobs j on j.scheduled_at = d.scheduled_at and j.id = d.id
where d.run_at >= $2::timestamptz and d.run_at <= {now} and j.options is not null order by d.run_at, d.id limit $3::int8
