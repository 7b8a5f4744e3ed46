-- Removes old counters. In: the first hour to keep. Index: the head of the primary key.
delete from punctual_rollups where hour < @P1
