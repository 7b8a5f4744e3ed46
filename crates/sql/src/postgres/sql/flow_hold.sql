-- Holds waiting jobs, in the order of ids. In: ids. Index: primary key.
select w.id from unnest($1::uuid[]) u (id)
cross join lateral (select id from punctual_waiting w where w.id = u.id for update) w
