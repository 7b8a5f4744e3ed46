-- One claim after the other minds the limits of a queue. In: queues. Out: those that nobody else is at.
select q.queue from unnest($1::text[]) q (queue)
where pg_try_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext(q.queue))
