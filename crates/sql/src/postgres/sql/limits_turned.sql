-- Keys have come so far. In: queues, keys, turns. Index: primary key.
insert into punctual_limit_fairness (queue, key, turn) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (queue, key) do update set turn = excluded.turn
