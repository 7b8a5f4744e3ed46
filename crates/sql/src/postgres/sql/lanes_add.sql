-- New lanes. In: queues, names, priorities.
insert into punctual_lanes (queue, name, priority)
select distinct queue, name, priority from unnest($1::text[], $2::text[], $3::int2[]) u (queue, name, priority)
order by queue, name, priority
on conflict do nothing
