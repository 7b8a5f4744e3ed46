-- Workflows, latest first. In: before which id, how many. Index: the primary key, backwards; then what is yet to be added up, which is little.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from (select * from punctual_workflows where id < $1::uuid order by id desc limit $2::int8) w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
order by w.id desc
