-- Jobs that have been deleted for long enough, longest first. In: cutoff, how many. Index: the head of the primary key.
select id from punctual_deleted where deleted_at <= $1::timestamptz order by deleted_at, id limit $2::int8
