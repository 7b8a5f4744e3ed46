-- Ephemeral jobs from before an instant that nobody runs. In: the instant, how many. Reads the whole table, which is small.
select e.id from punctual_ephemeral e
where e.created_at < $1::timestamptz and not exists (select from punctual_running r where r.id = e.id) order by e.id limit $2::int8
