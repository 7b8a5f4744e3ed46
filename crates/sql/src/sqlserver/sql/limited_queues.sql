-- The queues of which nothing is to be started, and those that are limited. Index: punctual_queues_limited, whole, which is small.
select name, paused, settings from punctual_queues where paused = 1 or limited = 1
