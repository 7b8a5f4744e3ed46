-- Nobody holds a job any longer. In: id. Index: primary key.
delete from punctual_running where job_id = ?1
