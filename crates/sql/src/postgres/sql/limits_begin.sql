-- In: the time (or null). Out: the time by now, and how often anything was said of queues. The transaction may have waited since it began, and
-- starts must not be counted as earlier than they are.
select coalesce($1::timestamptz, clock_timestamp()), {queues_revision}
