-- Keeps the count of a queue, name and status in step.
insert into punctual_counts (queue, name, status, n) values (?1, ?2, ?3, ?4)
on conflict do update set n = n + excluded.n
