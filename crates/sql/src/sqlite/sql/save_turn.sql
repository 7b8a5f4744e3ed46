-- A key, or a queue, has come so far. In: queue, key, turn.
insert into punctual_limit_fairness (queue, key, turn) values (?1, ?2, ?3) on conflict (queue, key) do update set turn = excluded.turn
