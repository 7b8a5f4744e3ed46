-- How many jobs died in a period and are still dead. In: since, until. Index: a range of punctual_events_dead, and nothing else.
select l.name, sum(d.n)::int8 from (
    select e.lane, count(*) as n from punctual_events e
    where e.final = 1 and e.at >= $1::timestamptz and e.at < $2::timestamptz group by e.lane) d
join punctual_lanes l on l.lane = d.lane
group by l.name order by 2 desc, 1
