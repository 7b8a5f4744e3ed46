-- What a claim must know of a queued job to hold it. In: seq. Index: primary key.
select j.id, j.attempt, j.run, j.keep_for_ms, j.user_id, j.last_event, j.flow, i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
