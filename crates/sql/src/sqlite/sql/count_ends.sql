-- Jobs of a workflow have come to an end, or back from one. In: id, now, changes of the three ends. Index: primary key.
update punctual_workflows set updated_at = ?2, succeeded = succeeded + ?3, dead = dead + ?4, cancelled = cancelled + ?5 where id = ?1
