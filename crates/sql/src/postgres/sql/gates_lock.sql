-- One claim after the other minds the gates of a queue. In: queues. Out: those that nobody else is at.
select q.queue from unnest($1::text[]) q (queue)
where pg_try_advisory_xact_lock(hashtext('punctual gate ' || current_schema()), hashtext(q.queue))
