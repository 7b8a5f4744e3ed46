-- In: the time (or null). Out: the time, and how often anything was said of queues.
select {now}, {queues_revision}
