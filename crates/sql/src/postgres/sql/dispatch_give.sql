-- A queue is given to the dispatcher: for the first time, or anew if the epoch is still this one.
-- In: queue, epoch, how long nobody hands out its jobs when it is given anew, in microseconds.
with g as (
    insert into punctual_dispatch_queues as q (queue, epoch, opens_at)
    select $1::text, 1, greatest(clock_timestamp(), d.opens_at) from punctual_dispatch d
    on conflict (queue) do update set epoch = q.epoch + 1, opened_at = null, loaded = false,
        opens_at = clock_timestamp() + $3::int8 * interval '1 microsecond'
    where q.epoch = $2::int8
    returning 1)
update punctual_dispatch set due_until = null where exists (select from g)
