-- The names of jobs that died in a period and are still dead. Counted by the caller: to group them here is to sort them.
-- In: since, until. Index: a range of the primary key, nothing else.
select name from punctual_dead where died_at >= @P1 and died_at < @P2
