-- The queues that nothing is to be started of. Index: punctual_queues_paused, whole, which is small.
select name from punctual_queues where paused = 1
