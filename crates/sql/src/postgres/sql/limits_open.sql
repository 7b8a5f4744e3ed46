-- Keys may start something: looks for the first job of each, by lane. In: queues, keys, turns.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
insert into punctual_limit_heads (lane, turn, run_at, id, queue, key)
select n.lane, u.turn, r.run_at, r.id, u.queue, u.key from unnest($1::text[], $2::text[], $3::int8[]) u (queue, key, turn)
join punctual_lanes n on n.queue = u.queue and n.keyed cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane order by r.run_at, r.id limit 1) r
