-- What is stored of a job's story, within one partition. In: id, when its last event there was written.
-- Index: punctual_events_final, one instant after the other.
with recursive story (at) as (
    select $2::timestamptz
    union
    select e.previous_at from story s join {events} e on {any_end} and e.at = s.at and e.job_id = $1::uuid where e.previous_at is not null)
select e.n, e.at, e.status, e.run, e.actor, e.detail, e.attempt, e.outcome, e.worker_id, e.started_at, e.error, e.previous_at
from story s join {events} e on {any_end} and e.at = s.at and e.job_id = $1::uuid
order by e.n
