-- How far keys have come. In: queues, keys. Out: the number of a key, and its turn, if it is known. Index: primary key.
select u.i, t.turn from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i)
join punctual_limit_fairness t on t.queue = u.queue and t.key = u.key
