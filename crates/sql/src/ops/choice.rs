//! The candidates of a claim under limits, and the records of those that start.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    ClaimRequest, StoreResult, Timestamp,
    limiter::{CandidateQueue, Candidates, Choice, KeyLimiter, LimitKey, Order, QueueLimiter, Records},
};

use super::{
    queue_controls::QueueControls,
    queue_limits::{KEYLESS, Key, QUEUE, Turns, evaluate, first_of, key_usages, queue_usage, starts, turns},
    read,
    ready::{Lane, ReadyJob, heads},
    statements as sql,
    tx::Tx,
};
use crate::db::params;

/// The lanes served by the worker in which keys have a job that may start.
pub(crate) fn lanes(tx: &Tx<'_>, request: &ClaimRequest) -> StoreResult<Vec<Lane>> {
    let lanes = read::lanes_by(tx.db, (sql::HEAD_QUEUE, sql::HEAD_NAME), &request.queues, &request.names)?;
    Ok(Lane::of_request(request, lanes))
}

/// Chooses the first jobs that may start, from lanes of jobs without a key and lanes of jobs with one.
pub(crate) fn choose<'l>(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    controls: &'l QueueControls,
    (plain, keyed): (&'l [Lane], &'l [Lane]),
) -> StoreResult<Choice<'l, ReadyJob<'l>>> {
    Ok(LimitedChoice { tx, request, controls }.candidates(plain, keyed)?.choose(request.limit))
}

/// The choice of jobs for a claim that applies limits.
struct LimitedChoice<'a, 'l> {
    tx: &'a Tx<'a>,
    request: &'a ClaimRequest,
    controls: &'l QueueControls,
}

impl<'l> LimitedChoice<'_, 'l> {
    fn candidates(&self, plain: &'l [Lane], keyed: &'l [Lane]) -> StoreResult<Candidates<'l, ReadyJob<'l>>> {
        let Self { tx, controls, .. } = *self;
        let names: BTreeSet<&'l str> = plain.iter().chain(keyed).map(|lane| lane.queue.as_str()).collect();
        let turns = turns(tx, controls, names.iter().flat_map(|queue| [(*queue, QUEUE), (*queue, KEYLESS)]))?;
        let mut queues = Vec::with_capacity(names.len());
        for name in names {
            let limiter = match controls.limits.get(name) {
                Some(limits) => QueueLimiter {
                    free: limits.free(&queue_usage(tx, limits, name)?, tx.now),
                    clock: turns.of((name, QUEUE)),
                },
                None => QueueLimiter::OPEN,
            };
            queues.push(CandidateQueue { name, limits: controls.limits(name), limiter });
        }
        let mut candidates = Candidates::new(queues);
        self.add_plain(plain, &turns, &mut candidates)?;
        self.add_keyed(keyed, &mut candidates)?;
        Ok(candidates)
    }

    /// Adds the candidates without a key.
    fn add_plain(
        &self,
        lanes: &'l [Lane],
        turns: &Turns<'_>,
        candidates: &mut Candidates<'l, ReadyJob<'l>>,
    ) -> StoreResult<()> {
        let Self { tx, request, controls } = *self;
        let mut waiting: BTreeMap<&'l str, Vec<(Order, ReadyJob<'l>)>> = BTreeMap::new();
        for job in heads(tx, lanes, request.limit)? {
            let queue = job.lane.queue.as_str();
            let job = ReadyJob { limit_key: controls.guards(queue).then(String::new), ..job };
            waiting.entry(queue).or_default().push((job.order(request), job));
        }
        for (queue, jobs) in waiting {
            candidates.add((queue, None), KeyLimiter::keyless(turns.of((queue, KEYLESS))), jobs);
        }
        Ok(())
    }

    /// Adds the candidates with a key.
    fn add_keyed(&self, lanes: &'l [Lane], candidates: &mut Candidates<'l, ReadyJob<'l>>) -> StoreResult<()> {
        let Self { tx, controls, .. } = *self;
        let found = self.keys_to_start(lanes)?;
        let keys: Vec<Key<'_>> = found.keys().map(|(queue, key)| (*queue, key.as_str())).collect();
        let turns = turns(tx, controls, keys.iter().copied())?;
        let usages = key_usages(tx, controls, &keys)?;
        let limiters = keys.iter().copied().zip(&usages).map(|((queue, key), usage)| KeyLimiter {
            free: controls.limits(queue).key_free(usage, tx.now),
            turn: turns.of((queue, key)),
        });
        let limiters: Vec<KeyLimiter> = limiters.collect();
        let allowed = keys.iter().zip(found.values()).zip(&limiters);
        let allowed: Vec<_> = allowed.map(|((key, lanes), limiter)| (*key, lanes.as_slice(), limiter.free)).collect();
        let jobs = self.first_jobs(&allowed)?;
        for (((queue, key), limiter), jobs) in keys.iter().copied().zip(limiters).zip(jobs) {
            candidates.add((queue, Some(key)), limiter, jobs);
        }
        Ok(())
    }

    /// The queues and keys with a job that may start, and the lanes of these jobs.
    fn keys_to_start(&self, lanes: &'l [Lane]) -> StoreResult<BTreeMap<(&'l str, String), Vec<&'l Lane>>> {
        let keys: Vec<(usize, String)> = self.tx.db.all_each(
            sql::HEADS,
            &mut |row| {
                lanes.iter().try_for_each(|lane| {
                    let (first, last) = lane.levels();
                    row(params![lane.queue, lane.name, self.request.limit, first, last])
                })
            },
            |row| row.get(0),
        )?;
        let mut found: BTreeMap<(&'l str, String), Vec<&'l Lane>> = BTreeMap::new();
        for (lane, key) in keys {
            found.entry((lanes[lane].queue.as_str(), key)).or_default().push(&lanes[lane]);
        }
        Ok(found)
    }

    /// The first jobs of keys in some lanes, as many as each key may start.
    fn first_jobs(&self, allowed: &[(Key<'_>, &[&'l Lane], u32)]) -> StoreResult<Vec<Vec<(Order, ReadyJob<'l>)>>> {
        let Self { tx, request, .. } = *self;
        let (mut lines, mut of) = (Vec::new(), Vec::new());
        for (index, (key, lanes, free)) in allowed.iter().enumerate() {
            lines.extend(lanes.iter().map(|lane| (*key, *lane, (*free).min(request.limit as u32))));
            of.extend(lanes.iter().map(|lane| (index, *lane)));
        }
        let mut jobs: Vec<Vec<(Order, ReadyJob<'l>)>> = allowed.iter().map(|_| Vec::new()).collect();
        for (line, (level, run_at, seq)) in first_of(tx, &lines)? {
            let (key, lane) = of[line];
            let job = ReadyJob { lane, level, run_at, seq, limit_key: Some(allowed[key].0.1.to_owned()) };
            jobs[key].push((job.order(request), job));
        }
        Ok(jobs)
    }
}

/// Stores the starts and fairness positions of the chosen jobs.
pub(crate) fn record(tx: &Tx<'_>, Records { starts, turns, rounds, .. }: &Records<'_>) -> StoreResult<()> {
    for ((queue, key), start) in starts {
        tx.write(sql::DELETE_OLD_STARTS, params![queue, stored(*key), start.horizon.as_micros()])?;
    }
    for ((queue, key), start) in starts {
        tx.write(sql::ADD_START, params![queue, stored(*key), start.at.as_micros(), start.count])?;
    }
    for ((queue, key), turn) in turns {
        tx.write(sql::SAVE_TURN, params![queue, stored(*key), *turn as i64])?;
    }
    rounds.iter().try_for_each(|(queue, clock)| tx.write(sql::DELETE_OLD_TURNS, params![queue, *clock as i64]))
}

/// The key under which a record is stored.
const fn stored(key: LimitKey<'_>) -> &str {
    match key {
        LimitKey::Queue => QUEUE,
        LimitKey::Keyless => KEYLESS,
        LimitKey::Key(key) => key,
    }
}

/// Re-evaluates the keys of the chosen jobs, which are held now. Returns when a rate next allows a job that it holds
/// back.
pub(crate) fn evaluate_keys(
    tx: &Tx<'_>,
    controls: &QueueControls,
    Records { open, full, rates, .. }: &Records<'_>,
) -> StoreResult<Option<Timestamp>> {
    full.iter().try_for_each(|(queue, key)| tx.write(sql::DELETE_HEADS, params![queue, key]))?;
    let mut opens_at = evaluate(tx, controls, &Vec::from_iter(open.iter().copied()))?;
    for (queue, rate) in rates {
        let reopens_at = rate.reopens_at(&starts(tx, Some(*rate), queue, QUEUE)?, tx.now);
        opens_at = reopens_at.into_iter().chain(opens_at).min();
    }
    Ok(opens_at)
}
