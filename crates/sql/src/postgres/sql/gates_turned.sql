-- Keys have come so far, and those behind their queue are as those that nobody remembers. In: queues, keys, turns; queues, their turns.
-- Index: primary key, a range of punctual_turns_turn.
with f as (
    delete from punctual_turns t using unnest($4::text[], $5::int8[]) u (queue, turn)
    where t.queue = u.queue and t.turn <= u.turn and t.key <> '' and not (t.key = any ($2::text[])))
insert into punctual_turns (queue, key, turn) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (queue, key) do update set turn = excluded.turn
