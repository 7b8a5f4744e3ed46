-- How far a key has come, or with an empty key, how far its queue has. In: queue, key. Index: primary key.
select turn from punctual_turns where queue = @P1 and hash = hashbytes('sha2_256', @P2)
