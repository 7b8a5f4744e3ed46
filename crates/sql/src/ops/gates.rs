//! Which queued jobs may start, where limits are set. What is decided, [`gate`] says.
//!
//! Jobs with a concurrency key stand in a table of their own. Whatever happens to one of them, its key is looked at in the same transaction:
//! `punctual_heads` has which keys have something to start. So a claim costs what it takes, and not what waits. What time and changed limits
//! open is marked, and looked at by the next claim.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    ClaimRequest, Limits, Rate, StoreResult, Timestamp,
    gate::{self, Line, Order, Passed, QueueGate},
};

use super::{
    gated::Gated,
    places::{Lane, Place, Standing, head},
    read, statements as sql,
    tx::Tx,
};
use crate::db::{Db, Row, params};

/// So many marked keys are looked at by one claim.
const LOOK_MAX_KEYS: usize = 2_000;
/// Under this key, `punctual_starts` and `punctual_turns` know the queue itself.
const QUEUE: &str = "";
/// Under this key, which nobody can have, `punctual_turns` knows the jobs without one. No blank: to some engines that is nothing.
const KEYLESS: &str = "\u{1}";

/// Puts a queued job where claims find it.
pub(crate) fn put(tx: &mut Tx<'_>, job: Standing<'_>) -> StoreResult<()> {
    let Standing { queue, name, priority, run_at, seq, key } = job;
    tx.woke_work = true;
    match key {
        None => tx.write(sql::INSERT_READY, params![queue, name, priority, run_at, seq]),
        Some(key) => {
            touch(tx, queue, key);
            tx.write(sql::INSERT_KEYED, params![queue, key, name, priority, run_at, seq])
        }
    }
}

/// Takes a queued job away from there.
pub(crate) fn leave(tx: &mut Tx<'_>, job: Standing<'_>) -> StoreResult<()> {
    job.key.into_iter().for_each(|key| touch(tx, job.queue, key));
    take(tx, job)
}

/// The same by a claim, which looks at the key itself.
pub(crate) fn take(tx: &Tx<'_>, job: Standing<'_>) -> StoreResult<()> {
    let Standing { queue, name, priority, run_at, seq, key } = job;
    match key {
        None => tx.write(sql::DELETE_READY, params![queue, name, priority, run_at, seq]),
        Some(key) => tx.write(sql::DELETE_KEYED, params![queue, key, name, priority, run_at, seq]),
    }
}

/// A held job that passed a gate is held no longer, so that another one may start.
pub(crate) fn freed(tx: &mut Tx<'_>, queue: &str, gate: &str) {
    tx.woke_work = true;
    if gate != QUEUE {
        touch(tx, queue, gate);
    }
}

/// Something has happened to a key's jobs.
fn touch(tx: &mut Tx<'_>, queue: &str, key: &str) {
    tx.keys.insert((queue.to_owned(), key.to_owned()));
}

/// Looks at the keys to whose jobs something has happened in this operation.
pub(crate) fn look_at_touched(tx: &mut Tx<'_>) -> StoreResult<()> {
    let keys = std::mem::take(&mut tx.keys);
    if keys.is_empty() {
        return Ok(());
    }
    tx.db.be_alone()?;
    let gated = Gated::read(tx.db)?;
    keys.iter().try_for_each(|(queue, key)| look_at(tx, &gated, queue, key).map(drop))
}

fn mark_at(tx: &Tx<'_>, at: Timestamp, queue: &str, key: &str) -> StoreResult<()> {
    tx.write(sql::INSERT_MARK, params![queue, at.as_micros(), key])
}

/// Whether claims have to mind gates.
pub(crate) fn are_any(tx: &Tx<'_>, gated: &Gated) -> StoreResult<bool> {
    Ok(!gated.limits.is_empty() || tx.db.only(sql::ANY_KEYED, &[], |row| row.get(0))?)
}

/// Looks at the marked keys of the queues that the worker serves; says when the next one is to be looked at.
pub(crate) fn look(tx: &Tx<'_>, request: &ClaimRequest, gated: &Gated) -> StoreResult<Option<Timestamp>> {
    let mut next = None;
    for queue in read::queues_by(tx.db, sql::MARKED_QUEUE, &request.queues)? {
        let all = look_in(tx, gated, &queue)?;
        let mark: Option<i64> = tx.db.only(sql::NEXT_MARK, params![queue, tx.now.as_micros()], |row| row.get(0))?;
        let mark = if all { mark.map(Timestamp::from_micros) } else { Some(tx.now) };
        next = mark.into_iter().chain(next).min();
    }
    Ok(next)
}

/// Looks at marked keys of a queue; says whether at all of them.
fn look_in(tx: &Tx<'_>, gated: &Gated, queue: &str) -> StoreResult<bool> {
    let marks: Vec<(i64, String)> =
        tx.db.all(sql::DUE_MARKS, params![queue, tx.now.as_micros(), LOOK_MAX_KEYS], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    marks.iter().try_for_each(|(at, key)| tx.write(sql::DELETE_MARK, params![queue, at, key]))?;
    let all = marks.len() < LOOK_MAX_KEYS;
    let keys: BTreeSet<String> = marks.into_iter().map(|(_, key)| key).collect();
    keys.iter().try_for_each(|key| look_at(tx, gated, queue, key).map(drop))?;
    Ok(all)
}

/// The limits of a queue have changed: its keys are to be looked at, and starts that are counted as later than now, in moments of a rate that is
/// another now, are counted as of now.
pub(crate) fn limits_changed(tx: &Tx<'_>, queue: &str) -> StoreResult<()> {
    tx.write(sql::MARK_QUEUE, params![queue])?;
    let now = tx.now.as_micros();
    let late: Vec<(String, i64)> =
        tx.db.all(sql::LATE_STARTS, params![queue, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    tx.write(sql::DELETE_LATE_STARTS, params![queue, now])?;
    late.iter().try_for_each(|(key, count)| tx.write(sql::ADD_START, params![queue, key, now, count]))
}

/// Removes what gates need not remember any more.
pub(crate) fn trim(tx: &Tx<'_>) -> StoreResult<()> {
    let gated = Gated::read(tx.db)?;
    for queue in read::queues_by(tx.db, sql::STARTED_QUEUE, &[])? {
        let horizon = gated.limits(&queue).horizon(tx.now).map_or(i64::MAX, Timestamp::as_micros);
        tx.write(sql::TRIM_STARTS, params![queue, horizon])?;
    }
    for queue in read::queues_by(tx.db, sql::TURNED_QUEUE, &[])? {
        if !gated.limits(&queue).fair {
            tx.write(sql::TRIM_TURNS, params![queue])?;
        }
    }
    Ok(())
}

/// Looks whether a key has something to start; says when it may, if its rate holds something back.
fn look_at(tx: &Tx<'_>, gated: &Gated, queue: &str, key: &str) -> StoreResult<Option<Timestamp>> {
    tx.write(sql::DELETE_HEADS, params![queue, key])?;
    let limits = gated.limits(queue);
    let passed = passed_key(tx, limits, queue, key)?;
    let names = names(tx, queue, key)?;
    if limits.key_free(&passed, tx.now) == 0 {
        // A slot that is freed leaves a mark; time does not.
        let opens_at = limits.key_rate.map(|rate| rate.opens_at(&passed.starts, tx.now));
        let opens_at = opens_at.filter(|at| *at > tx.now && !names.is_empty());
        opens_at.map_or(Ok(()), |at| mark_at(tx, at, queue, key))?;
        return Ok(opens_at);
    }
    let turn = if limits.fair { turn(tx, queue, key)?.max(turn(tx, queue, QUEUE)?) } else { 0 };
    for name in names {
        for (priority, run_at, seq) in first_of(tx, (queue, key, &name), 1)? {
            tx.write(sql::INSERT_HEAD, params![queue, name, priority, turn as i64, run_at, seq, key])?;
        }
    }
    Ok(None)
}

/// The names of a key's queued jobs.
fn names(tx: &Tx<'_>, queue: &str, key: &str) -> StoreResult<Vec<String>> {
    let mut names = Vec::<String>::new();
    loop {
        let last = names.last().map_or("", String::as_str);
        match tx.db.one(sql::KEYED_NAME, params![queue, key, last], |row| row.get(0))? {
            Some(name) => names.push(name),
            None => return Ok(names),
        }
    }
}

/// The first queued jobs of a queue, a key and a name: priority, time and place.
fn first_of(tx: &Tx<'_>, (queue, key, name): (&str, &str, &str), limit: u32) -> StoreResult<Vec<(u8, i64, i64)>> {
    tx.db.all(sql::KEYED_FIRST, params![queue, key, name, limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

fn turn(tx: &Tx<'_>, queue: &str, key: &str) -> StoreResult<u64> {
    let turn: Option<i64> = tx.db.one(sql::TURN, params![queue, key], |row| row.get(0))?;
    Ok(turn.unwrap_or(0) as u64)
}

fn starts(tx: &Tx<'_>, rate: Option<Rate>, queue: &str, key: &str) -> StoreResult<Vec<(Timestamp, u32)>> {
    let Some(rate) = rate else { return Ok(Vec::new()) };
    tx.db.all(sql::STARTS, params![queue, key, rate.horizon(tx.now).as_micros()], start)
}

/// What a gate has let through, all that is known of it.
pub(crate) fn passed(db: &dyn Db, queue: &str, key: Option<&str>) -> StoreResult<Passed> {
    let running = match key {
        Some(key) => db.only(sql::HELD_OF_KEY, params![queue, key], |row| row.get(0))?,
        None => db.only(sql::HELD_OF_QUEUE, params![queue], |row| row.get(0))?,
    };
    Ok(Passed { running, starts: db.all(sql::STARTS, params![queue, key.unwrap_or(QUEUE), 0], start)? })
}

fn start(row: &dyn Row) -> StoreResult<(Timestamp, u32)> {
    Ok((Timestamp::from_micros(row.get(0)?), row.get(1)?))
}

fn passed_key(tx: &Tx<'_>, limits: &Limits, queue: &str, key: &str) -> StoreResult<Passed> {
    let running = tx.db.only(sql::HELD_OF_KEY, params![queue, key], |row| row.get(0))?;
    Ok(Passed { running, starts: starts(tx, limits.key_rate, queue, key)? })
}

fn passed_queue(tx: &Tx<'_>, limits: &Limits, queue: &str) -> StoreResult<Passed> {
    let running = tx.db.only(sql::HELD_OF_QUEUE, params![queue], |row| row.get(0))?;
    Ok(Passed { running, starts: starts(tx, limits.rate, queue, QUEUE)? })
}

/// The lanes in which keys have something to start that the worker serves.
pub(crate) fn lanes(tx: &Tx<'_>, request: &ClaimRequest) -> StoreResult<Vec<Lane>> {
    read::lanes_by(tx.db, (sql::HEAD_QUEUE, sql::HEAD_NAME), &request.queues, &request.names)
}

/// What a claim chooses from.
struct Choice<'l> {
    names: Vec<&'l str>,
    queues: Vec<QueueGate>,
    /// How far the queues had come before.
    clocks: Vec<u64>,
    /// The key of each line.
    keys: Vec<Option<String>>,
    lines: Vec<Line<Place<'l>>>,
}

/// What a claim chose: the jobs in their order, and the keys that are to be looked at once they are held.
pub(crate) struct Chosen<'l> {
    pub(crate) places: Vec<Place<'l>>,
    /// And whether they may start more at once.
    keys: BTreeMap<(&'l str, String), bool>,
    /// The queues that have more.
    left: BTreeSet<&'l str>,
}

/// Chooses the first jobs that may start, of lanes whose jobs have no key and of lanes whose jobs have one.
pub(crate) fn choose<'l>(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    gated: &Gated,
    (plain, keyed): (&'l [Lane], &'l [Lane]),
) -> StoreResult<Chosen<'l>> {
    let queues: BTreeSet<&str> = plain.iter().chain(keyed).map(|(queue, _)| queue.as_str()).collect();
    let names: Vec<&str> = queues.into_iter().collect();
    let mut queues = Vec::with_capacity(names.len());
    for queue in &names {
        queues.push(match gated.limits.get(*queue) {
            Some(limits) => QueueGate {
                free: limits.free(&passed_queue(tx, limits, queue)?, tx.now),
                clock: if limits.fair { turn(tx, queue, QUEUE)? } else { 0 },
            },
            None => QueueGate::OPEN,
        });
    }
    let clocks = queues.iter().map(|queue| queue.clock).collect();
    let mut choice = Choice { names, queues, clocks, keys: Vec::new(), lines: Vec::new() };
    add_plain(tx, request, gated, plain, &mut choice)?;
    add_keyed(tx, request, gated, keyed, &mut choice)?;
    let chosen = gate::choose(&mut choice.queues, &mut choice.lines, request.limit);
    remember(tx, gated, &choice, &chosen)?;
    let keys = chosen.iter().filter_map(|(line, _)| {
        let (name, free) = (choice.names[choice.lines[*line].queue], choice.lines[*line].free);
        Some(((name, choice.keys[*line].clone()?), free > 0))
    });
    let left = choice.lines.iter().filter(|line| !line.jobs.is_empty()).map(|line| choice.names[line.queue]);
    let (keys, left) = (keys.collect(), left.collect());
    Ok(Chosen { keys, left, places: chosen.into_iter().map(|(_, place)| place).collect() })
}

fn add_plain<'l>(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    gated: &Gated,
    lanes: &'l [Lane],
    choice: &mut Choice<'l>,
) -> StoreResult<()> {
    let mut waiting: BTreeMap<usize, Vec<(Order, Place<'l>)>> = BTreeMap::new();
    for lane in lanes {
        let queue = choice.names.partition_point(|name| *name < lane.0.as_str());
        let gate = gated.guards(&lane.0).then(String::new);
        let places = head(tx, lane, request.limit)?.into_iter().map(|place| Place { gate: gate.clone(), ..place });
        waiting.entry(queue).or_default().extend(places.map(|place| (place.order(request), place)));
    }
    for (queue, mut jobs) in waiting {
        jobs.sort_by_key(|(order, _)| *order);
        let (name, limits) = (choice.names[queue], gated.limits(choice.names[queue]));
        let turn = if limits.fair { turn(tx, name, KEYLESS)?.max(choice.queues[queue].clock) } else { 0 };
        choice.keys.push(None);
        choice.lines.push(Line { queue, free: u32::MAX, turn, step: limits.step(None), jobs: jobs.into() });
    }
    Ok(())
}

fn add_keyed<'l>(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    gated: &Gated,
    lanes: &'l [Lane],
    choice: &mut Choice<'l>,
) -> StoreResult<()> {
    let mut found: BTreeMap<(usize, String), Vec<&'l Lane>> = BTreeMap::new();
    for lane in lanes {
        let queue = choice.names.partition_point(|name| *name < lane.0.as_str());
        let keys = tx.db.all(sql::HEADS, params![lane.0, lane.1, request.limit], |row| row.get(0))?;
        for key in keys {
            found.entry((queue, key)).or_default().push(lane);
        }
    }
    for ((queue, key), lanes) in found {
        let (name, limits) = (choice.names[queue], gated.limits(choice.names[queue]));
        let free = limits.key_free(&passed_key(tx, limits, name, &key)?, tx.now);
        let wanted = free.min(request.limit as u32);
        let mut jobs = Vec::new();
        for lane in lanes {
            for (priority, run_at, seq) in first_of(tx, (name, &key, &lane.1), wanted)? {
                let place = Place { lane, priority, run_at, seq, gate: Some(key.clone()) };
                jobs.push((place.order(request), place));
            }
        }
        jobs.sort_by_key(|(order, _)| *order);
        let turn = if limits.fair { turn(tx, name, &key)?.max(choice.queues[queue].clock) } else { 0 };
        let step = limits.step(Some(&key));
        choice.keys.push(Some(key));
        choice.lines.push(Line { queue, free, turn, step, jobs: jobs.into() });
    }
    Ok(())
}

/// Keeps what gates must know of what they let through, besides that it is held.
fn remember(tx: &Tx<'_>, gated: &Gated, choice: &Choice<'_>, chosen: &[(usize, Place<'_>)]) -> StoreResult<()> {
    for (number, _) in chosen {
        let queue = choice.names[choice.lines[*number].queue];
        let Some(limits) = gated.limits.get(queue) else { continue };
        let key = choice.keys[*number].as_deref();
        started(tx, limits.rate, queue, QUEUE)?;
        if let Some(key) = key {
            started(tx, limits.key_rate, queue, key)?;
        }
    }
    let fair = |line: &Line<_>| gated.limits(choice.names[line.queue]).fair;
    let lines: HashMap<usize, &Line<_>> = chosen.iter().map(|(line, _)| (*line, &choice.lines[*line])).collect();
    for (number, line) in lines.into_iter().filter(|(_, line)| fair(line)) {
        let key = choice.keys[number].as_deref().unwrap_or(KEYLESS);
        tx.write(sql::SAVE_TURN, params![choice.names[line.queue], key, line.turn as i64])?;
    }
    for ((queue, gate), before) in choice.names.iter().zip(&choice.queues).zip(&choice.clocks) {
        if gate.clock != *before {
            tx.write(sql::SAVE_TURN, params![queue, QUEUE, gate.clock as i64])?;
        }
        if gate::begins_round(*before, gate.clock) {
            tx.write(sql::FORGET_TURNS, params![queue, gate.clock as i64])?;
        }
    }
    Ok(())
}

fn started(tx: &Tx<'_>, rate: Option<Rate>, queue: &str, key: &str) -> StoreResult<()> {
    let Some(rate) = rate else { return Ok(()) };
    tx.write(sql::FORGET_STARTS, params![queue, key, rate.horizon(tx.now).as_micros()])?;
    tx.write(sql::ADD_START, params![queue, key, rate.moment(tx.now).as_micros(), 1])
}

impl Chosen<'_> {
    /// The chosen jobs are held now: looks what their keys may start after that. Says when a rate lets more through of what it holds
    /// back.
    pub(crate) fn look_after(&self, tx: &Tx<'_>, gated: &Gated) -> StoreResult<Option<Timestamp>> {
        let mut opens_at = None;
        for ((queue, key), more) in &self.keys {
            if !more && gated.limits(queue).key_rate.is_none() {
                tx.write(sql::DELETE_HEADS, params![*queue, key])?;
            } else {
                opens_at = look_at(tx, gated, queue, key)?.into_iter().chain(opens_at).min();
            }
        }
        for queue in &self.left {
            if let Some(rate) = gated.limits.get(*queue).and_then(|limits| limits.rate) {
                let opens = rate.opens_at(&starts(tx, Some(rate), queue, QUEUE)?, tx.now);
                opens_at = Some(opens).filter(|at| *at > tx.now).into_iter().chain(opens_at).min();
            }
        }
        Ok(opens_at)
    }
}
