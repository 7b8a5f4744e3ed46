-- The number of the last event, if it is gone: who follows the numbers would take one that is given out again for one that they have seen.
create table punctual_event_numbers (
    only_one integer primary key check (only_one = 1),
    last     integer not null
) strict;
insert into punctual_event_numbers (only_one, last) values (1, 0);
