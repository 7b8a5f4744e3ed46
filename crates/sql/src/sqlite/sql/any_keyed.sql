-- Whether any job with a key is queued. Index: one step in the primary key.
select exists (select 1 from punctual_keyed where queue > '')
