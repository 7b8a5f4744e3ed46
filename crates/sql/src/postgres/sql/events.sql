-- What is stored of a job's story, within one partition. In: id, when its last event there was written.
-- Index: punctual_events_final, one instant after the other; lateral, or the server would look for the job at all instants at once.
with recursive story (at) as (
    select $2::timestamptz
    union
    select e.previous_at from story s cross join lateral (
        select e.previous_at from {events} e where {any_end} and e.at = s.at and e.job_id = $1::uuid offset 0) e
    where e.previous_at is not null)
select e.n, e.at, e.status, e.run, e.actor, e.detail, e.attempt, e.outcome, e.worker_id, e.started_at, e.error, e.previous_at
from story s cross join lateral (select * from {events} e where {any_end} and e.at = s.at and e.job_id = $1::uuid offset 0) e
order by e.n
