-- Holds waiting jobs' places against promotion. In: run_ats, ids. Index: the whole primary key.
select d.id from unnest($1::timestamptz[], $2::uuid[]) u (run_at, id)
cross join lateral (select id from punctual_due d where d.run_at = u.run_at and d.id = u.id for update) d
