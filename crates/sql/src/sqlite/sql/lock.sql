-- Takes a lock that is free, expired or the owner's own. In: name, owner, now, until. Out: its token, or no row.
insert into punctual_locks (name, owner, token, expires_at) values (?1, ?2, 1, ?4)
on conflict (name) do update set owner = excluded.owner, token = token + 1, expires_at = excluded.expires_at
where punctual_locks.owner is null or punctual_locks.owner = excluded.owner or punctual_locks.expires_at <= ?3
returning token
