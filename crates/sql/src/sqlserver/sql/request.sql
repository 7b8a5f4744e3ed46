-- What is known of a request. In: its key.
select fingerprint, at, seed from punctual_requests where [key] = @P1
