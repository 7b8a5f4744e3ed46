-- Deleted jobs, last ended first. In: before which (at, id), not before which at, how many.
-- Index: a range of punctual_deleted_finished, backwards.
select d.finished_at, d.id, null::int4, 'deleted' from punctual_deleted d
where (d.finished_at, d.id) < ($1::timestamptz, $2::uuid) and d.finished_at >= $3::timestamptz
order by d.finished_at desc, d.id desc limit $4::int8
