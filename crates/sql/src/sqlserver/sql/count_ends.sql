-- Jobs of a workflow have come to an end, or back from one. In: id, now, changes of the three ends. Index: primary key.
update w set updated_at = i.now, succeeded = w.succeeded + i.succeeded, dead = w.dead + i.dead, cancelled = w.cancelled + i.cancelled
from punctual_workflows w with (forceseek, rowlock) join openjson(@P1) with (
    id char(36) '$[0]', now bigint '$[1]', succeeded int '$[2]', dead int '$[3]', cancelled int '$[4]') i
on w.id = cast(cast(i.id as uniqueidentifier) as binary(16))
