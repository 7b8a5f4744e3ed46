-- The same for one user, correlation id or tag. In: as above, kind, value. Index: primary key, backwards.
select l.scheduled_at, l.id, null::int4, null::text from punctual_labels l
where l.kind = $5::text and l.value = $6::text and l.scheduled_at <= $1::timestamptz
    and (l.scheduled_at, l.id) < ($1::timestamptz, $2::uuid) and l.scheduled_at >= $3::timestamptz
order by l.scheduled_at desc, l.id desc limit $4::int8
