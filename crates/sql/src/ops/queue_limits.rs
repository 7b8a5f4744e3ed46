//! Which queued jobs may start, where limits are set. [`punctual_core::limiter`] decides.
//!
//! Jobs with a concurrency key stand in a table of their own. Whatever happens to one of them, its key is looked at in
//! the same transaction: `punctual_limit_heads` has which keys have something to start. So a claim costs what it takes,
//! and not what waits. What time and changed limits open is marked, and looked at by the next claim.

use std::collections::{BTreeSet, HashMap};

use punctual_core::{ClaimRequest, Limits, Rate, StoreResult, Timestamp, limiter::LimitUsage};

use super::{
    places::{Lane, Standing},
    queue_controls::QueueControls,
    read, statements as sql,
    tx::Tx,
};
use crate::db::{Db, Row, params};
use crate::level::Level;

/// So many marked keys are looked at by one claim.
const LOOK_MAX_KEYS: usize = 2_000;
/// Under this key, `punctual_limit_starts` and `punctual_limit_fairness` know the queue itself.
pub(super) const QUEUE: &str = "";
/// Under this key, which nobody can have, `punctual_limit_fairness` knows the jobs without one. No blank: to some
/// engines that is nothing.
pub(super) const KEYLESS: &str = "\u{1}";

/// Puts a queued job where claims find it.
pub(crate) fn put(tx: &mut Tx<'_>, job: Standing<'_>) -> StoreResult<()> {
    let Standing { queue, name, level, run_at, seq, key } = job;
    tx.woke_work = true;
    match key {
        None => tx.write(sql::INSERT_READY, params![queue, name, level, run_at, seq]),
        Some(key) => {
            touch(tx, queue, key);
            tx.write(sql::INSERT_KEYED, params![queue, key, name, level, run_at, seq])
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
    let Standing { queue, name, level, run_at, seq, key } = job;
    match key {
        None => tx.write(sql::DELETE_READY, params![queue, name, level, run_at, seq]),
        Some(key) => tx.write(sql::DELETE_KEYED, params![queue, key, name, level, run_at, seq]),
    }
}

/// A held job that was limited is held no longer, so that another one may start.
pub(crate) fn freed(tx: &mut Tx<'_>, queue: &str, limit_key: &str) {
    tx.woke_work = true;
    if limit_key != QUEUE {
        touch(tx, queue, limit_key);
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
    let controls = QueueControls::read(tx.db)?;
    let keys: Vec<Key<'_>> = keys.iter().map(|(queue, key)| (queue.as_str(), key.as_str())).collect();
    look_at(tx, &controls, &keys).map(drop)
}

/// The key is to be looked at, from a time on.
pub(super) fn mark_at(tx: &Tx<'_>, at: Timestamp, queue: &str, key: &str) -> StoreResult<()> {
    tx.write(sql::INSERT_MARK, params![queue, at.as_micros(), key])
}

/// Whether claims have to apply limits.
pub(crate) fn are_any(tx: &Tx<'_>, controls: &QueueControls) -> StoreResult<bool> {
    Ok(!controls.limits.is_empty() || tx.db.only(sql::ANY_KEYED, &[], |row| row.get(0))?)
}

/// Looks at the marked keys of the queues that the worker serves; says when the next one is to be looked at.
pub(crate) fn look(tx: &Tx<'_>, request: &ClaimRequest, controls: &QueueControls) -> StoreResult<Option<Timestamp>> {
    let mut next = None;
    for queue in read::queues_by(tx.db, sql::MARKED_QUEUE, &request.queues)? {
        let all = look_in(tx, controls, &queue)?;
        let mark: Option<i64> = tx.db.only(sql::NEXT_MARK, params![queue, tx.now.as_micros()], |row| row.get(0))?;
        let mark = if all { mark.map(Timestamp::from_micros) } else { Some(tx.now) };
        next = mark.into_iter().chain(next).min();
    }
    Ok(next)
}

/// Looks at marked keys of a queue; says whether at all of them.
fn look_in(tx: &Tx<'_>, controls: &QueueControls, queue: &str) -> StoreResult<bool> {
    let marks: Vec<(i64, String)> =
        tx.db.all(sql::DUE_MARKS, params![queue, tx.now.as_micros(), LOOK_MAX_KEYS], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    marks.iter().try_for_each(|(at, key)| tx.write(sql::DELETE_MARK, params![queue, at, key]))?;
    let all = marks.len() < LOOK_MAX_KEYS;
    let keys: BTreeSet<Key<'_>> = marks.iter().map(|(_, key)| (queue, key.as_str())).collect();
    look_at(tx, controls, &Vec::from_iter(keys))?;
    Ok(all)
}

/// The limits of a queue have changed: its keys are to be looked at, and starts that are counted as later than now, in
/// moments of a rate that is another now, are counted as of now.
pub(crate) fn limits_changed(tx: &Tx<'_>, queue: &str) -> StoreResult<()> {
    tx.write(sql::MARK_QUEUE, params![queue])?;
    let now = tx.now.as_micros();
    let late: Vec<(String, i64)> =
        tx.db.all(sql::LATE_STARTS, params![queue, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    tx.write(sql::DELETE_LATE_STARTS, params![queue, now])?;
    late.iter().try_for_each(|(key, count)| tx.write(sql::ADD_START, params![queue, key, now, count]))
}

/// Removes what limits no longer need.
pub(crate) fn trim(tx: &Tx<'_>) -> StoreResult<()> {
    tx.write(sql::TRIM_SLOTS, params![tx.now.as_micros()])?;
    let controls = QueueControls::read(tx.db)?;
    for queue in read::queues_by(tx.db, sql::STARTED_QUEUE, &[])? {
        let horizon = controls.limits(&queue).horizon(tx.now).map_or(i64::MAX, Timestamp::as_micros);
        tx.write(sql::TRIM_STARTS, params![queue, horizon])?;
    }
    for queue in read::queues_by(tx.db, sql::TURNED_QUEUE, &[])? {
        if !controls.limits(&queue).fair {
            tx.write(sql::TRIM_TURNS, params![queue])?;
        }
    }
    Ok(())
}

/// A queue and a key.
pub(super) type Key<'a> = (&'a str, &'a str);

/// Looks whether keys have something to start; says when the first of those may that their rates hold back.
pub(super) fn look_at(tx: &Tx<'_>, controls: &QueueControls, keys: &[Key<'_>]) -> StoreResult<Option<Timestamp>> {
    keys.iter().try_for_each(|(queue, key)| tx.write(sql::DELETE_HEADS, params![queue, key]))?;
    let (passed, names) = (passed_keys(tx, controls, keys)?, names(tx, keys)?);
    let (mut first_opens_at, mut lines) = (None, Vec::new());
    for (((queue, key), passed), names) in keys.iter().zip(&passed).zip(&names) {
        let limits = controls.limits(queue);
        if limits.key_free(passed, tx.now) > 0 {
            // Claims that take no suspects, or only them, find the first of theirs.
            let lanes = names.iter().flat_map(|name| [false, true].map(|suspects| Lane::new(*queue, name, suspects)));
            lines.extend(lanes.map(|lane| ((*queue, *key), lane, 1)));
            continue;
        }
        // A slot that is freed leaves a mark; time does not.
        let opens_at = limits.key_rate.map(|rate| rate.opens_at(&passed.starts, tx.now));
        if let Some(opens_at) = opens_at.filter(|at| *at > tx.now && !names.is_empty()) {
            mark_at(tx, opens_at, queue, key)?;
            first_opens_at = first_opens_at.into_iter().chain([opens_at]).min();
        }
    }
    let turns = turns(tx, controls, lines.iter().map(|(key, ..)| *key))?;
    let wanted: Vec<_> = lines.iter().map(|(key, lane, many)| (*key, lane, *many)).collect();
    for (line, (level, run_at, seq)) in first_of(tx, &wanted)? {
        let ((queue, key), Lane { name, .. }, _) = wanted[line];
        let turn = turns.of((queue, key)).max(turns.of((queue, QUEUE))) as i64;
        tx.write(sql::INSERT_HEAD, params![queue, name, level, turn, run_at, seq, key])?;
    }
    Ok(first_opens_at)
}

/// The names of keys' queued jobs.
fn names(tx: &Tx<'_>, keys: &[Key<'_>]) -> StoreResult<Vec<Vec<String>>> {
    let mut names = vec![Vec::<String>::new(); keys.len()];
    let mut more: Vec<usize> = (0..keys.len()).collect();
    // One step of each at a time.
    while !more.is_empty() {
        let found = tx.db.all_each(
            sql::KEYED_NAME,
            &mut |row| {
                more.iter().try_for_each(|place| {
                    let ((queue, key), last) = (keys[*place], names[*place].last().map_or("", String::as_str));
                    row(params![queue, key, last])
                })
            },
            |row| row.get(0),
        )?;
        let found = found.into_iter().map(|(step, name)| (more[step], name));
        more = found
            .map(|(place, name)| {
                names[place].push(name);
                place
            })
            .collect();
    }
    Ok(names)
}

/// A queued job: its level, its time and its place.
pub(super) type First = (Level, i64, i64);

/// The first queued jobs of keys in lanes, so many of each.
pub(super) fn first_of(tx: &Tx<'_>, lines: &[(Key<'_>, &Lane, u32)]) -> StoreResult<Vec<(usize, First)>> {
    tx.db.all_each(
        sql::KEYED_FIRST,
        &mut |row| {
            lines.iter().try_for_each(|((queue, key), lane, many)| {
                let (first, last) = lane.levels();
                row(params![queue, key, lane.name, many, first, last])
            })
        },
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// How far keys have come that take turns, and their queues.
pub(super) struct Turns<'k>(HashMap<Key<'k>, u64>);

impl Turns<'_> {
    pub(super) fn of(&self, key: Key<'_>) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }
}

/// Of these keys and of their queues, where keys take turns.
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
    Ok(Turns(found.into_iter().map(|(place, turn)| (keys[place], turn as u64)).collect()))
}

pub(super) fn starts(tx: &Tx<'_>, rate: Option<Rate>, queue: &str, key: &str) -> StoreResult<Vec<(Timestamp, u32)>> {
    let Some(rate) = rate else { return Ok(Vec::new()) };
    tx.db.all(sql::STARTS, params![queue, key, rate.horizon(tx.now).as_micros()], start)
}

/// The usage of a limit, all that is known of it.
pub(crate) fn passed(db: &dyn Db, now: Timestamp, queue: &str, key: Option<&str>) -> StoreResult<LimitUsage> {
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

pub(super) fn passed_keys(tx: &Tx<'_>, controls: &QueueControls, keys: &[Key<'_>]) -> StoreResult<Vec<LimitUsage>> {
    let running = tx.db.only_each(
        sql::HELD_OF_KEY,
        &mut |row| keys.iter().try_for_each(|(queue, key)| row(params![queue, key, tx.now.as_micros()])),
        |row| row.get(0),
    )?;
    let mut passed: Vec<_> = running.into_iter().map(|running| LimitUsage { running, starts: Vec::new() }).collect();
    let rated: Vec<_> = keys
        .iter()
        .enumerate()
        .filter_map(|(place, (queue, key))| Some((place, queue, key, controls.limits(queue).key_rate?.horizon(tx.now))))
        .collect();
    let starts = tx.db.all_each(
        sql::STARTS,
        &mut |row| rated.iter().try_for_each(|(_, queue, key, horizon)| row(params![queue, key, horizon.as_micros()])),
        start,
    )?;
    for (found, start) in starts {
        passed[rated[found].0].starts.push(start);
    }
    Ok(passed)
}

pub(super) fn passed_queue(tx: &Tx<'_>, limits: &Limits, queue: &str) -> StoreResult<LimitUsage> {
    let running = tx.db.only(sql::HELD_OF_QUEUE, params![queue, tx.now.as_micros()], |row| row.get(0))?;
    Ok(LimitUsage { running, starts: starts(tx, limits.rate, queue, QUEUE)? })
}
