-- When the next job is due. In: a time before which none is. Index: the head of the primary key.
select run_at from punctual_due where run_at >= $1::timestamptz order by run_at limit 1
