-- New lanes. In: queues, names, priorities, whether their jobs have keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct queue, name, priority, keyed from unnest($1::text[], $2::text[], $3::int2[], $4::bool[]) u (queue, name, priority, keyed)
order by queue, name, priority, keyed
on conflict do nothing
