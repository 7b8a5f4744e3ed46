-- Keys have nothing to start, as far as known. In: queues, keys. Index: punctual_limit_heads_key.
delete from punctual_limit_heads h using unnest($1::text[], $2::text[]) u (queue, key) where h.queue = u.queue and h.key = u.key
