-- For each of some places, in order, whether a job stands there. In: lanes, times, ids. Index: primary keys.
select exists (select from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id)
    or exists (select from punctual_due d where d.run_at = u.run_at and d.id = u.id)
from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) with ordinality u (lane, run_at, id, n) order by u.n
