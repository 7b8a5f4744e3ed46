-- A gate has started a job. In: queue, key, when.
insert into punctual_starts (queue, key, at, n) values (?1, ?2, ?3, 1) on conflict (queue, key, at) do update set n = n + 1
