-- How many jobs of a queue are held. In: queue. Index: a range of the counters' primary key.
select coalesce(sum(n), 0) from punctual_counts where queue = @P1 and status = 'processing'
