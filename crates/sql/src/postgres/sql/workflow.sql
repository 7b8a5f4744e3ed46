-- A workflow. In: id. Index: primary key; then what is yet to be added up, which is little.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from punctual_workflows w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
where w.id = $1::uuid
