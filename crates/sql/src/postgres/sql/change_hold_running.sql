-- Holds the executions of jobs against their settles, in the order of ids. In: ids. Index: primary key.
select r.id from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id for update) r
