-- Removes old counters. In: the first hour to keep. Index: the head of the primary key.
delete from punctual_tallies where hour < @P1
