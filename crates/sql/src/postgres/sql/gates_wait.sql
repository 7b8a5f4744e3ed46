-- Waits until no claim minds the gates of a queue, and keeps others from it. In: the queue.
select pg_advisory_xact_lock(hashtext('punctual gate ' || current_schema()), hashtext($1::text))
