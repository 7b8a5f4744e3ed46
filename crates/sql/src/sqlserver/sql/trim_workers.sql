-- Forgets workers that have been silent for long. In: cutoff. Reads the whole table: one row for each worker.
delete from punctual_workers where seen_at <= @P1
