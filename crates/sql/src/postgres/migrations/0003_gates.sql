-- Limits: of queues, and of concurrency keys.
--
-- Jobs with a key stand in lanes of their own, which only claims that mind gates serve.
alter table punctual_lanes add column keyed boolean not null default false;
alter table punctual_lanes drop constraint punctual_lanes_queue_name_priority_key;
alter table punctual_lanes add unique (queue, name, priority, keyed);

-- gate: the job's key. Of a running job that has none, nothing, if its queue was limited; null if it passed no gate.
alter table punctual_ready add column gate text;
-- Negative, so that who looks for a key's jobs cannot be led through the whole lane by the primary key instead.
create index punctual_ready_gate on punctual_ready (gate, (-lane), run_at, id) where gate is not null;
alter table punctual_running add column gate text;
create index punctual_running_gate on punctual_running (gate, lane) where gate is not null;

-- Slots that executions of cancelled jobs occupy, of the gate that they passed, until their handlers are gone or their leases end.
create table punctual_occupied_slots (
    job_id      uuid        not null,
    run         integer     not null,
    worker_id   uuid        not null,
    queue       text        not null,
    gate        text        not null,
    lease_until timestamptz not null,
    primary key (job_id, run)
);
create index punctual_occupied_slots_gate on punctual_occupied_slots (queue, gate);

-- The keys that may start something: which job is the first of each, by lane. A claim reads only these, however many keys wait.
create table punctual_heads (
    lane   integer     not null,
    -- Whose turn it is, where keys take turns; 0 elsewhere.
    turn   bigint      not null,
    run_at timestamptz not null,
    id     uuid        not null,
    queue  text        not null,
    key    text        not null,
    primary key (lane, turn, run_at, id)
);
create index punctual_heads_key on punctual_heads (queue, key);

-- Keys of which something has changed, or with a time at which their rate lets more through: the next claim looks at them. Marks are only ever
-- added, so that nobody waits for anybody, and taken away by a claim that looks at the queue's gates alone.
create table punctual_marks (
    queue text        not null,
    at    timestamptz not null,
    key   text        not null
);
create index punctual_marks_time on punctual_marks (queue, at);

-- What was started lately where there is a rate, by the key, or under an empty key by the queue.
create table punctual_starts (
    queue text        not null,
    key   text        not null,
    at    timestamptz not null,
    n     bigint      not null,
    primary key (queue, key, at)
);

-- How far keys have come that take turns, and under an empty key how far their queue has. Jobs without a key stand under a blank, which is
-- nobody's key.
create table punctual_turns (
    queue text   not null,
    key   text   not null,
    turn  bigint not null,
    primary key (queue, key)
);
