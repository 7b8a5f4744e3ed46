-- Events are about to go, perhaps the last one: its number stays known. Index: the end of the primary key.
update punctual_event_numbers set last = max(last, (select coalesce(max(seq), 0) from punctual_events)) where only_one = 1
