-- What is known of a request. In: its key.
select fingerprint, at, seed from punctual_idempotency where key = ?1
