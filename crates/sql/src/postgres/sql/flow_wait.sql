-- Jobs wait for fewer parents. In: ids, for how many, whether one of the others has failed. Index: primary key.
update punctual_waiting w set waiting_on = u.waiting_on, any_failed = u.any_failed
from unnest($1::uuid[], $2::int4[], $3::bool[]) u (id, waiting_on, any_failed) where w.id = u.id
