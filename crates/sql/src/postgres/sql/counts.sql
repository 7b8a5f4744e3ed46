-- How many jobs there are. Reads two small tables whole.
select l.queue, l.name, c.status, sum(c.n)::int8
from (select * from punctual_counts union all select * from punctual_counts_new) c join punctual_lanes l on l.lane = c.lane
group by l.queue, l.name, c.status having sum(c.n) > 0
