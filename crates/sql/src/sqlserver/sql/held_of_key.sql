-- How many jobs of a key are held. In: queue, key. Index: punctual_running_gate.
select count(*) from punctual_running where queue = @P1 and gate is not null and gate_hash = hashbytes('sha2_256', @P2)
