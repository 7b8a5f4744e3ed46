-- What limits have started lately. In: queues, keys, after when. Out: the number of a key, when, how many. Index: a range of the primary key each.
select u.i, s.at, s.n from unnest($1::text[], $2::text[], $3::timestamptz[]) with ordinality u (queue, key, horizon, i) cross join lateral (
    select s.at, s.n from punctual_limit_starts s where s.queue = u.queue and s.key = u.key and s.at > u.horizon) s
