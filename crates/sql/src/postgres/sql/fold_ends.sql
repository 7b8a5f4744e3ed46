-- Adds up the ends of workflows' jobs.
with d as (delete from punctual_ends_pending returning *)
update punctual_workflows w set succeeded = w.succeeded + s.succeeded, dead = w.dead + s.dead, cancelled = w.cancelled + s.cancelled,
    updated_at = greatest(w.updated_at, s.at)
from (
    select workflow, max(at) as at, sum(succeeded)::int4 as succeeded, sum(dead)::int4 as dead, sum(cancelled)::int4 as cancelled
    from d group by workflow) s
where w.id = s.workflow
