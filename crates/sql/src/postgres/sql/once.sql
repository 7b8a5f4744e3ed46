-- Remembers a request, unless one of its key is known. In: the time (or null), key, fingerprint, seed. Out: what is known of it now.
-- Where somebody else has just stored it, the update makes its row seen.
insert into punctual_idempotency as r (key, fingerprint, at, seed) values ($2::text, $3::bytea, {now}, $4::int8)
on conflict (key) do update set key = r.key
returning fingerprint, at, seed
