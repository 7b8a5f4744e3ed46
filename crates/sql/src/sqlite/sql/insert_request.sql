-- Remembers a request, unless one of its key is known. In: key, fingerprint, now, seed.
insert into punctual_idempotency (key, fingerprint, at, seed) values (?1, ?2, ?3, ?4) on conflict do nothing
