-- A key has nothing to start, as far as known. In: queue, key. Index: punctual_limit_heads_key.
delete from punctual_limit_heads where queue = ?1 and key = ?2
