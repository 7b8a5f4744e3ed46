-- The lanes of suspects beside those of running jobs, as far as they are not there. In: ids. Out: one row for each new lane. Index: primary keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct l.queue, l.name, l.priority + 16, l.keyed from punctual_running r join punctual_lanes l on l.lane = r.lane
where r.id = any ($1::uuid[]) and l.priority < 16
order by 1, 2, 3, 4
on conflict do nothing
returning lane
