-- Jobs whose workers were lost move to the lanes of suspects, with their places and counts. In: ids, when they are scheduled for.
-- Index: primary keys.
with j as (
    update punctual_jobs j set lane = suspects.lane
    from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at), punctual_lanes former, punctual_lanes suspects
    where j.scheduled_at = u.scheduled_at and j.id = u.id and former.lane = j.lane and former.priority < 16
        and suspects.queue = former.queue and suspects.name = former.name and suspects.priority = former.priority + 16
        and suspects.keyed = former.keyed
    returning j.id, j.run_at, j.status, former.lane as former, suspects.lane),
ready as (
    update punctual_ready r set lane = j.lane from j where r.lane = j.former and r.run_at = j.run_at and r.id = j.id),
due as (
    update punctual_due d set lane = j.lane from j where d.run_at = j.run_at and d.id = j.id)
insert into punctual_counts_new (lane, status, n)
select former, status, -count(*) from j group by former, status
union all
select lane, status, count(*) from j group by lane, status
