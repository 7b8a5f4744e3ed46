-- The keys that have something to start of lanes, first ones first. In: lanes, how many of each. Out: lane, queue, key, turn.
-- Index: the head of a range of the primary key for each.
select k.lane, h.queue, h.key, h.turn from unnest($1::int4[]) k (lane) cross join lateral (
    select h.queue, h.key, h.turn from punctual_limit_heads h where h.lane = k.lane order by h.turn, h.run_at, h.id limit $2::int8) h
