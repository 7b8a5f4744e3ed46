-- A key has been looked at. In: queue, time, key. Index: the whole primary key.
delete from punctual_marks where queue = @P1 and at = @P2 and hash = hashbytes('sha2_256', @P3)
