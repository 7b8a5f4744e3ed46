-- Takes a lock that is free, expired or the owner's own. In: the time (or null), name, owner, how long. Out: its token, or no row.
insert into punctual_locks as l (name, owner, token, expires_at)
select $2::text, $3::text, 1, t.now + $4::int8 * interval '1 microsecond' from (select coalesce($1::timestamptz, now()) as now) t
on conflict (name) do update set owner = excluded.owner, token = l.token + 1, expires_at = excluded.expires_at
where l.owner is null or l.owner = excluded.owner or l.expires_at <= coalesce($1::timestamptz, now())
returning token, expires_at
