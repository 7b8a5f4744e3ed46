-- All lanes that there have ever been. Reads the whole table: one row for each queue, name and priority, without and with keys.
select lane, queue, name, priority, keyed from punctual_lanes
