-- How far a key has come, or with an empty key, how far its queue has. In: queue, key. Index: primary key.
select turn from punctual_limit_fairness where queue = ?1 and key = ?2
