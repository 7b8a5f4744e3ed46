-- Jobs by their ids, in any order. In: ids, when each is scheduled for. Index: as for one.
select {columns_now} from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id
