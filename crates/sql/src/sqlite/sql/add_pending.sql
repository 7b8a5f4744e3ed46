-- Keeps the count of a user's unfinished jobs in step.
insert into punctual_pending (user_id, name, n) values (?1, ?2, ?3) on conflict do update set n = n + excluded.n
