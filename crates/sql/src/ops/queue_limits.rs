//! Decides which queued jobs may start under limits; the rules are in [`punctual_core::limiter`].
//!
//! Jobs with a concurrency key are in a table of their own. Every change to such a job re-evaluates its key in the same
//! transaction: `punctual_limit_heads` has the keys whose first jobs may start. So the cost of a claim depends on the
//! jobs that it takes, not on the jobs that wait. Keys that become available later, or because limits changed, get a
//! wakeup row, which the next claim processes.

use std::collections::{BTreeSet, HashMap};

use punctual_core::{
    ClaimRequest, Limits, Rate, StoreResult, Timestamp,
    limiter::{KeyState, LimitUsage},
};

use super::{
    queue_controls::QueueControls,
    read,
    ready::{Lane, ReadyEntry},
    statements as sql,
    tx::Tx,
};
use crate::db::{Db, Row, params};
use crate::level::Level;

/// Maximum number of wakeups that a claim processes per queue.
const WAKEUPS_MAX_COUNT: usize = 2_000;
/// The key under which `punctual_limit_starts` and `punctual_limit_fairness` store the queue itself.
pub(super) const QUEUE: &str = "";
/// The key under which `punctual_limit_fairness` stores the jobs without a key. Invalid as a concurrency key. Not a
/// space, because some engines treat that as an empty string.
pub(super) const KEYLESS: &str = "\u{1}";

/// Inserts a queued job into the index that claims read.
pub(crate) fn put(tx: &mut Tx<'_>, job: ReadyEntry<'_>) -> StoreResult<()> {
    let ReadyEntry { queue, name, level, run_at, seq, key } = job;
    tx.new_work = true;
    match key {
        None => tx.write(sql::INSERT_READY, params![queue, name, level, run_at, seq]),
        Some(key) => {
            touch(tx, queue, key);
            tx.write(sql::INSERT_KEYED, params![queue, key, name, level, run_at, seq])
        }
    }
}

/// Removes a queued job from that index.
pub(crate) fn leave(tx: &mut Tx<'_>, job: ReadyEntry<'_>) -> StoreResult<()> {
    job.key.into_iter().for_each(|key| touch(tx, job.queue, key));
    take(tx, job)
}

/// Like `leave`, for a claim, which re-evaluates the key itself.
pub(crate) fn take(tx: &Tx<'_>, job: ReadyEntry<'_>) -> StoreResult<()> {
    let ReadyEntry { queue, name, level, run_at, seq, key } = job;
    match key {
        None => tx.write(sql::DELETE_READY, params![queue, name, level, run_at, seq]),
        Some(key) => tx.write(sql::DELETE_KEYED, params![queue, key, name, level, run_at, seq]),
    }
}

/// Records that a limited job is no longer held, so that another one may start.
pub(crate) fn freed(tx: &mut Tx<'_>, queue: &str, limit_key: &str) {
    tx.new_work = true;
    if limit_key != QUEUE {
        touch(tx, queue, limit_key);
    }
}

/// Records a change to the jobs of a key.
fn touch(tx: &mut Tx<'_>, queue: &str, key: &str) {
    tx.keys.insert((queue.to_owned(), key.to_owned()));
}

/// Re-evaluates the keys whose jobs this operation changed.
pub(crate) fn evaluate_touched(tx: &mut Tx<'_>) -> StoreResult<()> {
    let keys = std::mem::take(&mut tx.keys);
    if keys.is_empty() {
        return Ok(());
    }
    tx.job_db.be_alone()?;
    let controls = QueueControls::read(tx.db)?;
    let keys: Vec<Key<'_>> = keys.iter().map(|(queue, key)| (queue.as_str(), key.as_str())).collect();
    evaluate(tx, &controls, &keys).map(drop)
}

/// Schedules the re-evaluation of a key at a time.
pub(super) fn wake_at(tx: &Tx<'_>, at: Timestamp, queue: &str, key: &str) -> StoreResult<()> {
    tx.write(sql::INSERT_WAKEUP, params![queue, at.as_micros(), key])
}

/// Whether claims have to apply limits.
pub(crate) fn are_any(tx: &Tx<'_>, controls: &QueueControls) -> StoreResult<bool> {
    Ok(!controls.limits.is_empty() || tx.db.only(sql::ANY_KEYED, &[], |row| row.get(0))?)
}

/// Processes the due wakeups of the queues that the worker serves; returns when the next one is due.
pub(crate) fn process_wakeups(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    controls: &QueueControls,
) -> StoreResult<Option<Timestamp>> {
    let mut next = None;
    for queue in read::queues_by(tx.db, sql::QUEUE_WITH_WAKEUP, &request.queues)? {
        let all = process_wakeups_of(tx, controls, &queue)?;
        let wakeup: Option<i64> = tx.db.only(sql::NEXT_WAKEUP, params![queue, tx.now.as_micros()], |row| row.get(0))?;
        let wakeup = if all { wakeup.map(Timestamp::from_micros) } else { Some(tx.now) };
        next = wakeup.into_iter().chain(next).min();
    }
    Ok(next)
}

/// Processes due wakeups of a queue; returns whether it processed all of them.
fn process_wakeups_of(tx: &Tx<'_>, controls: &QueueControls, queue: &str) -> StoreResult<bool> {
    let wakeups: Vec<(i64, String)> =
        tx.db.all(sql::DUE_WAKEUPS, params![queue, tx.now.as_micros(), WAKEUPS_MAX_COUNT], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    wakeups.iter().try_for_each(|(at, key)| tx.write(sql::DELETE_WAKEUP, params![queue, at, key]))?;
    let all = wakeups.len() < WAKEUPS_MAX_COUNT;
    let keys: BTreeSet<Key<'_>> = wakeups.iter().map(|(_, key)| (queue, key.as_str())).collect();
    evaluate(tx, controls, &Vec::from_iter(keys))?;
    Ok(all)
}

/// Applies a change of a queue's limits: schedules the re-evaluation of its keys. Starts are rounded to moments that
/// depend on the rate's period; those that are recorded as later than now are moved to now.
pub(crate) fn limits_changed(tx: &Tx<'_>, queue: &str) -> StoreResult<()> {
    tx.write(sql::WAKE_QUEUE, params![queue])?;
    let now = tx.now.as_micros();
    let late: Vec<(String, i64)> =
        tx.db.all(sql::LATE_STARTS, params![queue, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    tx.write(sql::DELETE_LATE_STARTS, params![queue, now])?;
    late.iter().try_for_each(|(key, count)| tx.write(sql::ADD_START, params![queue, key, now, count]))
}

/// Removes rows that limits no longer need.
pub(crate) fn prune(tx: &Tx<'_>) -> StoreResult<()> {
    tx.write(sql::PRUNE_SLOTS, params![tx.now.as_micros()])?;
    let controls = QueueControls::read(tx.db)?;
    // The rows of a queue whose limits cannot be read may still be needed.
    let is_readable = |queue: &String| !controls.is_unreadable(queue);
    for queue in read::queues_by(tx.db, sql::QUEUE_WITH_STARTS, &[])?.into_iter().filter(is_readable) {
        let horizon = controls.limits(&queue).horizon(tx.now).map_or(i64::MAX, Timestamp::as_micros);
        tx.write(sql::PRUNE_STARTS, params![queue, horizon])?;
    }
    for queue in read::queues_by(tx.db, sql::QUEUE_WITH_TURNS, &[])?.into_iter().filter(is_readable) {
        if !controls.limits(&queue).fair {
            tx.write(sql::PRUNE_TURNS, params![queue])?;
        }
    }
    Ok(())
}

/// A queue and a key.
pub(super) type Key<'a> = (&'a str, &'a str);

/// Re-evaluates whether jobs of these keys may start; returns when the first job that a rate holds back may start.
pub(super) fn evaluate(tx: &Tx<'_>, controls: &QueueControls, keys: &[Key<'_>]) -> StoreResult<Option<Timestamp>> {
    keys.iter().try_for_each(|(queue, key)| tx.write(sql::DELETE_HEADS, params![queue, key]))?;
    let (usages, names) = (key_usages(tx, controls, keys)?, names(tx, keys)?);
    let (mut first_opens_at, mut lines) = (None, Vec::new());
    for (((queue, key), usage), names) in keys.iter().zip(&usages).zip(&names) {
        match controls.limits(queue).key_state(usage, tx.now) {
            KeyState::Open => {
                // Claims take either no suspects or only suspects; each kind needs its own head.
                let lanes =
                    names.iter().flat_map(|name| [false, true].map(|suspects| Lane::new(*queue, name, suspects)));
                lines.extend(lanes.map(|lane| ((*queue, *key), lane, 1)));
            }
            KeyState::OpensAt(at) if !names.is_empty() => {
                wake_at(tx, at, queue, key)?;
                first_opens_at = first_opens_at.into_iter().chain([at]).min();
            }
            KeyState::OpensAt(_) | KeyState::Full => {}
        }
    }
    let turns = turns(tx, controls, lines.iter().map(|(key, ..)| *key))?;
    let heads: Vec<_> = lines.iter().map(|(key, lane, count)| (*key, lane, *count)).collect();
    for (line, (level, run_at, seq)) in first_of(tx, &heads)? {
        let ((queue, key), Lane { name, .. }, _) = heads[line];
        let turn = turns.of((queue, key)).max(turns.of((queue, QUEUE))) as i64;
        tx.write(sql::INSERT_HEAD, params![queue, name, level, turn, run_at, seq, key])?;
    }
    Ok(first_opens_at)
}

/// The names of each key's queued jobs.
fn names(tx: &Tx<'_>, keys: &[Key<'_>]) -> StoreResult<Vec<Vec<String>>> {
    let mut names = vec![Vec::<String>::new(); keys.len()];
    let mut more: Vec<usize> = (0..keys.len()).collect();
    // One index step per key in each round.
    while !more.is_empty() {
        let found = tx.db.all_each(
            sql::KEYED_NAME,
            &mut |row| {
                more.iter().try_for_each(|index| {
                    let ((queue, key), last) = (keys[*index], names[*index].last().map_or("", String::as_str));
                    row(params![queue, key, last])
                })
            },
            |row| row.get(0),
        )?;
        let found = found.into_iter().map(|(step, name)| (more[step], name));
        more = found
            .map(|(index, name)| {
                names[index].push(name);
                index
            })
            .collect();
    }
    Ok(names)
}

/// A queued job: its level, its time and its row number.
pub(super) type First = (Level, i64, i64);

/// The first queued jobs of keys in lanes, up to the given number for each.
pub(super) fn first_of(tx: &Tx<'_>, lines: &[(Key<'_>, &Lane, u32)]) -> StoreResult<Vec<(usize, First)>> {
    tx.db.all_each(
        sql::KEYED_FIRST,
        &mut |row| {
            lines.iter().try_for_each(|((queue, key), lane, count)| {
                let (first, last) = lane.levels();
                row(params![queue, key, lane.name, count, first, last])
            })
        },
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// The fairness positions of keys and of their queues.
pub(super) struct Turns<'k>(HashMap<Key<'k>, u64>);

impl Turns<'_> {
    pub(super) fn of(&self, key: Key<'_>) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }
}

/// The fairness positions of these keys and their queues, where fairness is enabled.
pub(super) fn turns<'k>(
    tx: &Tx<'_>,
    controls: &QueueControls,
    keys: impl Iterator<Item = Key<'k>>,
) -> StoreResult<Turns<'k>> {
    let fair = keys.filter(|(queue, _)| controls.limits(queue).fair);
    let keys: BTreeSet<Key<'k>> = fair.flat_map(|(queue, key)| [(queue, key), (queue, QUEUE)]).collect();
    let keys: Vec<Key<'k>> = keys.into_iter().collect();
    let found = tx.db.all_each(
        sql::TURN,
        &mut |row| keys.iter().try_for_each(|(queue, key)| row(params![queue, key])),
        |row| row.get::<i64>(0),
    )?;
    Ok(Turns(found.into_iter().map(|(index, turn)| (keys[index], turn as u64)).collect()))
}

pub(super) fn starts(tx: &Tx<'_>, rate: Option<Rate>, queue: &str, key: &str) -> StoreResult<Vec<(Timestamp, u32)>> {
    let Some(rate) = rate else { return Ok(Vec::new()) };
    tx.db.all(sql::STARTS, params![queue, key, rate.horizon(tx.now).as_micros()], start)
}

/// The usage of a limit, with all recorded starts.
pub(crate) fn usage(db: &dyn Db, now: Timestamp, queue: &str, key: Option<&str>) -> StoreResult<LimitUsage> {
    let now = now.as_micros();
    let running = match key {
        Some(key) => db.only(sql::HELD_OF_KEY, params![queue, key, now], |row| row.get(0))?,
        None => db.only(sql::HELD_OF_QUEUE, params![queue, now], |row| row.get(0))?,
    };
    Ok(LimitUsage { running, starts: db.all(sql::STARTS, params![queue, key.unwrap_or(QUEUE), 0], start)? })
}

fn start(row: &dyn Row) -> StoreResult<(Timestamp, u32)> {
    Ok((Timestamp::from_micros(row.get(0)?), row.get(1)?))
}

pub(super) fn key_usages(tx: &Tx<'_>, controls: &QueueControls, keys: &[Key<'_>]) -> StoreResult<Vec<LimitUsage>> {
    let running = tx.db.only_each(
        sql::HELD_OF_KEY,
        &mut |row| keys.iter().try_for_each(|(queue, key)| row(params![queue, key, tx.now.as_micros()])),
        |row| row.get(0),
    )?;
    let mut usages: Vec<_> = running.into_iter().map(|running| LimitUsage { running, starts: Vec::new() }).collect();
    let rated: Vec<_> = keys
        .iter()
        .enumerate()
        .filter_map(|(index, (queue, key))| Some((index, queue, key, controls.limits(queue).key_rate?.horizon(tx.now))))
        .collect();
    let starts = tx.db.all_each(
        sql::STARTS,
        &mut |row| rated.iter().try_for_each(|(_, queue, key, horizon)| row(params![queue, key, horizon.as_micros()])),
        start,
    )?;
    for (found, start) in starts {
        usages[rated[found].0].starts.push(start);
    }
    Ok(usages)
}

pub(super) fn queue_usage(tx: &Tx<'_>, limits: &Limits, queue: &str) -> StoreResult<LimitUsage> {
    let running = tx.db.only(sql::HELD_OF_QUEUE, params![queue, tx.now.as_micros()], |row| row.get(0))?;
    Ok(LimitUsage { running, starts: starts(tx, limits.rate, queue, QUEUE)? })
}
