-- An execution occupies no slot any more. In: id, run. Index: primary key.
delete from punctual_occupied_slots where job_id = ?1 and run = ?2
