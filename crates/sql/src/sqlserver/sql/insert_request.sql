-- Remembers a request, unless one of its key is known. In: key, fingerprint, now, seed.
insert into punctual_idempotency ([key], fingerprint, at, seed, hash) select @P1, @P2, @P3, @P4, cast(hashbytes('sha2_256', @P1) as binary(32))
where not exists (select 1 from punctual_idempotency where hash = cast(hashbytes('sha2_256', @P1) as binary(32)))
