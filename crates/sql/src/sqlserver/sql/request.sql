-- What is known of a request. In: its key.
select fingerprint, at, seed from punctual_idempotency where hash = cast(hashbytes('sha2_256', @P1) as binary(32))
