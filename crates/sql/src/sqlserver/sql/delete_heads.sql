-- A key has nothing to start, as far as known. In: queue, key. Index: punctual_heads_key.
delete from punctual_heads where queue = @P1 and hash = hashbytes('sha2_256', @P2)
