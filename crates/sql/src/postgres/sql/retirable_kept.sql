-- Finished jobs that have been kept as long as they wished. In: the time, how many. Index: the head of the primary key.
select id from punctual_expiries where expires_at <= $1::timestamptz order by expires_at, id limit $2::int8
