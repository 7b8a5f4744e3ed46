-- A worker that is known to be dead occupies no slots. In: the time (or null), the worker. Out: how many it did.
-- Reads all that is occupied, which is little. Index: as of slots_release.sql.
with d as (delete from punctual_occupied_slots s where s.worker_id = $2::uuid returning s.*),
{freed}
