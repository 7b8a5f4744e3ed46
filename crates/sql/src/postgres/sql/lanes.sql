-- All lanes that there have ever been. Reads the whole table: one row for each queue, name and priority.
select lane, queue, name, priority from punctual_lanes
