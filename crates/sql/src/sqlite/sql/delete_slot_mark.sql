-- A key need not be looked at when a lease ends, unless another one ends then. In: queue, time, key.
-- Index: the whole primary key of marks, punctual_occupied_slots_limit_key.
delete from punctual_limit_wakeups where queue = ?1 and at = ?2 and key = ?3
    and not exists (select 1 from punctual_occupied_slots s where s.queue = ?1 and s.limit_key = ?3 and s.lease_until = ?2)
