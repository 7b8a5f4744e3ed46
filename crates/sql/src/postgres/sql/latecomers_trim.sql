-- Forgets old latecomers. In: from before when. Index: punctual_late_commits_written.
delete from punctual_late_commits where written < $1::timestamptz
