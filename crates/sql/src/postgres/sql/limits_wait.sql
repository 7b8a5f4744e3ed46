-- Waits until no claim minds the limits of a queue, and keeps others from it. In: the queue.
select pg_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext($1::text))
