-- Which executions are under way in a worker's hands. In: ids, the worker. Out: id, run. Index: primary key.
select r.id, r.run from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id limit 1) r where r.worker_id = $2::uuid
