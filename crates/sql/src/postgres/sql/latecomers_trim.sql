-- Forgets old latecomers. In: from before when. Index: punctual_latecomers_written.
delete from punctual_latecomers where written < $1::timestamptz
