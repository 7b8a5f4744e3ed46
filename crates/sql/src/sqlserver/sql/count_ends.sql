-- Jobs of a workflow have come to an end, or back from one. In: id, now, changes of the three ends. Index: primary key.
update punctual_workflows set updated_at = @P2, succeeded = succeeded + @P3, dead = dead + @P4, cancelled = cancelled + @P5 where id = @P1
