-- Counts starts under a limit. In: queue, key, when, how many.
insert into punctual_limit_starts (queue, key, at, n) values (?1, ?2, ?3, ?4) on conflict (queue, key, at) do update set n = n + excluded.n
