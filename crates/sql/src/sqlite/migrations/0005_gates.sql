-- Limits: of queues, and of concurrency keys.
--
-- A queued job with a key does not stand in punctual_ready but here: each key's in the order in which they start.
create table punctual_keyed (
    queue    text    not null,
    key      text    not null,
    name     text    not null,
    priority integer not null,
    run_at   integer not null,
    job      integer not null,
    primary key (queue, key, name, priority desc, run_at, job)
) strict, without rowid;
create index punctual_keyed_time on punctual_keyed (run_at, job);

-- The keys that may start something: which job is the first of each, by name. A claim reads only these, however many keys wait.
create table punctual_heads (
    queue    text    not null,
    name     text    not null,
    priority integer not null,
    -- Whose turn it is, where keys take turns; 0 elsewhere.
    turn     integer not null,
    run_at   integer not null,
    job      integer not null,
    key      text    not null,
    primary key (queue, name, priority desc, turn, run_at, job)
) strict, without rowid;
create index punctual_heads_key on punctual_heads (queue, key);

-- Keys whose queue is limited otherwise by now, or with a time at which their rate lets more through: the next claim looks at them. What happens to
-- a key's jobs needs no mark: whoever does it looks at the key itself.
create table punctual_marks (
    queue text    not null,
    at    integer not null,
    key   text    not null,
    primary key (queue, at, key)
) strict, without rowid;

-- What was started lately where there is a rate, by the key, or under an empty key by the queue.
create table punctual_starts (
    queue text    not null,
    key   text    not null,
    at    integer not null,
    n     integer not null,
    primary key (queue, key, at)
) strict, without rowid;

-- How far keys have come that take turns, and under an empty key how far their queue has. Jobs without a key stand under a blank, which is
-- nobody's key.
create table punctual_turns (
    queue text    not null,
    key   text    not null,
    turn  integer not null,
    primary key (queue, key)
) strict, without rowid;

-- The gate that a held job passed: its key, or nothing for that of its queue alone. Null if there was none.
alter table punctual_running add column gate text;
create index punctual_running_gate on punctual_running (queue, gate) where gate is not null;

-- Slots that executions of cancelled jobs occupy, of the gate that they passed, until their handlers are gone or their leases end.
create table punctual_occupied_slots (
    job_id      blob    not null,
    run         integer not null,
    worker_id   blob    not null,
    queue       text    not null,
    gate        text    not null,
    lease_until integer not null,
    primary key (job_id, run)
) strict, without rowid;
create index punctual_occupied_slots_gate on punctual_occupied_slots (queue, gate);

alter table punctual_queues add column limited integer not null default 0;
drop index punctual_queues_paused;
create index punctual_queues_gated on punctual_queues (name) where paused = 1 or limited = 1;

insert into punctual_keyed (queue, key, name, priority, run_at, job)
select r.queue, j.extras ->> 'concurrency_key', r.name, r.priority, r.run_at, r.job
from punctual_ready r join punctual_jobs j on j.seq = r.job where j.extras ->> 'concurrency_key' is not null;
delete from punctual_ready where job in (select job from punctual_keyed);
insert into punctual_marks (queue, at, key) select distinct queue, 0, key from punctual_keyed;
update punctual_running set gate = (select j.extras ->> 'concurrency_key' from punctual_jobs j where j.seq = punctual_running.job);
