-- Whether any job with a key is queued. Index: one step in the primary key.
select case when exists (select 1 from punctual_keyed) then 1 else 0 end
