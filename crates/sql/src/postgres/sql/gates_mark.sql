-- Keys are to be looked at from a time on. In: queues, times, keys.
insert into punctual_marks (queue, at, key) select * from unnest($1::text[], $2::timestamptz[], $3::text[])
