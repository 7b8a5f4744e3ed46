-- Dispatch: another store may hand out queued jobs, faster than this one. docs/adr/0014 says how.

-- Whether the other store has been told of a job that is queued, or soon will be; or will be in the ordinary way: by whoever stored it, or when the
-- time of the job comes near.
alter table punctual_ready add column told boolean not null default true;
alter table punctual_ready alter column told set default false;
create index punctual_ready_untold on punctual_ready (queued_at) where not told and gate is null;
alter table punctual_due add column told boolean not null default true;
alter table punctual_due alter column told set default false;
create index punctual_due_untold on punctual_due (run_at) where not told;

-- One row: how the other store stands.
create table punctual_dispatch (
    only_one  boolean     not null primary key default true check (only_one),
    -- What the other store knows this one by.
    ledger    uuid        not null default gen_random_uuid(),
    -- Until when it hands jobs out, unless that is prolonged.
    until     timestamptz not null default '-infinity',
    -- Queues that it is given for the first time open then.
    opens_at  timestamptz not null default '-infinity',
    -- It has been told of jobs that wait for a time up to this one; of none, if there is no time.
    due_until timestamptz,
    -- When a process that claims jobs last could not reach it.
    missed_at timestamptz
);
insert into punctual_dispatch default values;

-- The queues whose jobs it hands out.
create table punctual_dispatch_queues (
    queue    text        not null primary key,
    -- Counts how often the queue was given to it anew.
    epoch    bigint      not null,
    -- Nobody hands out its jobs before.
    opens_at timestamptz not null,
    opened_at timestamptz,
    loaded   boolean     not null default false
);
