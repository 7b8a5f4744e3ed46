-- Removes slots of leases that have ended. In: now. Reads the whole table, which has few rows.
delete from punctual_occupied_slots where lease_until <= @P1
