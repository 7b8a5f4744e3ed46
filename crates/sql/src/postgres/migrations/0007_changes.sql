-- Changes: what happens to jobs is followed by what could not be seen at the look before. docs/adr/0019 says how.

-- What applications stored in transactions of their own. It bears the time at which these began, and the number of the part that a savepoint made of
-- it; that part has the same number here. Whether it can be seen is decided by the whole.
create table punctual_latecomers (
    written timestamptz not null,
    began   timestamptz not null,
    whole   bigint      not null
);
create index punctual_latecomers_written on punctual_latecomers (written);
