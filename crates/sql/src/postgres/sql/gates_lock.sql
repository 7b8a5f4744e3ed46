-- One claim after the other minds the gates of a queue. In: queues, in order.
select pg_advisory_xact_lock(hashtext('punctual gate ' || current_schema()), hashtext(q.queue)) from unnest($1::text[]) q (queue)
