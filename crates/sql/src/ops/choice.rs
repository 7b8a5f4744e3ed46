//! Chooses which queued jobs a claim takes under limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    ClaimRequest, Rate, StoreResult, Timestamp,
    limiter::{self, Line, Order, QueueLimiter},
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

/// The candidates of a claim.
struct ClaimCandidates<'l> {
    names: Vec<&'l str>,
    queues: Vec<QueueLimiter>,
    /// The fairness clocks of the queues before the choice.
    clocks: Vec<u64>,
    /// The key of each line.
    keys: Vec<Option<String>>,
    lines: Vec<Line<ReadyJob<'l>>>,
}

/// The chosen jobs in claim order, and the keys to re-evaluate once the jobs are held.
pub(crate) struct Chosen<'l> {
    pub(crate) jobs: Vec<ReadyJob<'l>>,
    /// The value is whether the key may start more jobs at once.
    keys: BTreeMap<(&'l str, String), bool>,
    /// The queues with more candidates than were chosen.
    left: BTreeSet<&'l str>,
}

/// Chooses the first jobs that may start, from lanes of jobs without a key and lanes of jobs with one.
pub(crate) fn choose<'l>(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    controls: &QueueControls,
    (plain, keyed): (&'l [Lane], &'l [Lane]),
) -> StoreResult<Chosen<'l>> {
    LimitedChoice { tx, request, controls }.choose(plain, keyed)
}

/// The choice of jobs for a claim that applies limits.
struct LimitedChoice<'a> {
    tx: &'a Tx<'a>,
    request: &'a ClaimRequest,
    controls: &'a QueueControls,
}

impl LimitedChoice<'_> {
    fn choose<'l>(&self, plain: &'l [Lane], keyed: &'l [Lane]) -> StoreResult<Chosen<'l>> {
        let Self { tx, request, controls } = *self;
        let queues: BTreeSet<&str> = plain.iter().chain(keyed).map(|lane| lane.queue.as_str()).collect();
        let names: Vec<&str> = queues.into_iter().collect();
        let turns = turns(tx, controls, names.iter().flat_map(|queue| [(*queue, QUEUE), (*queue, KEYLESS)]))?;
        let mut queues = Vec::with_capacity(names.len());
        for queue in &names {
            queues.push(match controls.limits.get(*queue) {
                Some(limits) => QueueLimiter {
                    free: limits.free(&queue_usage(tx, limits, queue)?, tx.now),
                    clock: turns.of((queue, QUEUE)),
                },
                None => QueueLimiter::OPEN,
            });
        }
        let clocks = queues.iter().map(|queue| queue.clock).collect();
        let mut choice = ClaimCandidates { names, queues, clocks, keys: Vec::new(), lines: Vec::new() };
        self.add_plain(plain, &turns, &mut choice)?;
        self.add_keyed(keyed, &mut choice)?;
        let chosen = limiter::choose(&mut choice.queues, &mut choice.lines, request.limit);
        self.remember(&choice, &chosen)?;
        let keys = chosen.iter().filter_map(|(line, _)| {
            let (name, free) = (choice.names[choice.lines[*line].queue], choice.lines[*line].free);
            Some(((name, choice.keys[*line].clone()?), free > 0))
        });
        let left = choice.lines.iter().filter(|line| !line.jobs.is_empty()).map(|line| choice.names[line.queue]);
        let (keys, left) = (keys.collect(), left.collect());
        Ok(Chosen { keys, left, jobs: chosen.into_iter().map(|(_, job)| job).collect() })
    }

    /// Adds the candidates without a key.
    fn add_plain<'l>(&self, lanes: &'l [Lane], turns: &Turns<'_>, choice: &mut ClaimCandidates<'l>) -> StoreResult<()> {
        let Self { tx, request, controls } = *self;
        let mut waiting: BTreeMap<usize, Vec<(Order, ReadyJob<'l>)>> = BTreeMap::new();
        for job in heads(tx, lanes, request.limit)? {
            let queue = choice.names.partition_point(|name| *name < job.lane.queue.as_str());
            let job = ReadyJob { limit_key: controls.guards(&job.lane.queue).then(String::new), ..job };
            waiting.entry(queue).or_default().push((job.order(request), job));
        }
        for (queue, mut jobs) in waiting {
            jobs.sort_by_key(|(order, _)| *order);
            let (name, limits) = (choice.names[queue], controls.limits(choice.names[queue]));
            let turn = turns.of((name, KEYLESS)).max(choice.queues[queue].clock);
            choice.keys.push(None);
            choice.lines.push(Line { queue, free: u32::MAX, turn, step: limits.step(None), jobs: jobs.into() });
        }
        Ok(())
    }

    /// Adds the candidates with a key.
    fn add_keyed<'l>(&self, lanes: &'l [Lane], choice: &mut ClaimCandidates<'l>) -> StoreResult<()> {
        let Self { tx, controls, .. } = *self;
        let found = self.keys_to_start(lanes, &choice.names)?;
        let keys: Vec<Key<'_>> = found.keys().map(|(queue, key)| (choice.names[*queue], key.as_str())).collect();
        let turns = turns(tx, controls, keys.iter().copied())?;
        let usages = key_usages(tx, controls, &keys)?;
        let free = keys.iter().zip(&usages).map(|((queue, _), usage)| controls.limits(queue).key_free(usage, tx.now));
        let free: Vec<u32> = free.collect();
        let allowed = keys.iter().zip(found.values()).zip(&free);
        let allowed: Vec<_> = allowed.map(|((key, lanes), free)| (*key, lanes.as_slice(), *free)).collect();
        let jobs = self.first_jobs(&allowed)?;
        for (((queue, key), free), jobs) in found.keys().zip(free).zip(jobs) {
            let limits = controls.limits(choice.names[*queue]);
            let turn = turns.of((choice.names[*queue], key)).max(choice.queues[*queue].clock);
            choice.keys.push(Some(key.clone()));
            choice.lines.push(Line { queue: *queue, free, turn, step: limits.step(Some(key)), jobs: jobs.into() });
        }
        Ok(())
    }

    /// The keys with a job that may start and the lanes of these jobs, by the index of their queue in `names`.
    fn keys_to_start<'l>(
        &self,
        lanes: &'l [Lane],
        names: &[&str],
    ) -> StoreResult<BTreeMap<(usize, String), Vec<&'l Lane>>> {
        let keys = self.tx.db.all_each(
            sql::HEADS,
            &mut |row| {
                lanes.iter().try_for_each(|lane| {
                    let (first, last) = lane.levels();
                    row(params![lane.queue, lane.name, self.request.limit, first, last])
                })
            },
            |row| row.get(0),
        )?;
        let mut found: BTreeMap<(usize, String), Vec<&'l Lane>> = BTreeMap::new();
        for (lane, key) in keys {
            let queue = names.partition_point(|name| *name < lanes[lane].queue.as_str());
            found.entry((queue, key)).or_default().push(&lanes[lane]);
        }
        Ok(found)
    }

    /// The first jobs of keys in some lanes, as many as each key may start, in claim order.
    fn first_jobs<'l>(&self, allowed: &[(Key<'_>, &[&'l Lane], u32)]) -> StoreResult<Vec<Vec<(Order, ReadyJob<'l>)>>> {
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
        jobs.iter_mut().for_each(|jobs| jobs.sort_by_key(|(order, _)| *order));
        Ok(jobs)
    }

    /// Stores the starts and fairness positions of the chosen jobs.
    fn remember(&self, choice: &ClaimCandidates<'_>, chosen: &[(usize, ReadyJob<'_>)]) -> StoreResult<()> {
        let Self { tx, controls, .. } = *self;
        let mut started: BTreeMap<Key<'_>, (Rate, usize)> = BTreeMap::new();
        for (number, _) in chosen {
            let queue = choice.names[choice.lines[*number].queue];
            let limits = controls.limits(queue);
            let key = choice.keys[*number].as_deref();
            let of_key = key.and_then(|key| Some(((queue, key), limits.key_rate?)));
            for (key, rate) in limits.rate.map(|rate| ((queue, QUEUE), rate)).into_iter().chain(of_key) {
                started.entry(key).or_insert((rate, 0)).1 += 1;
            }
        }
        for ((queue, key), (rate, _)) in &started {
            tx.write(sql::DELETE_OLD_STARTS, params![queue, key, rate.horizon(tx.now).as_micros()])?;
        }
        for ((queue, key), (rate, count)) in started {
            tx.write(sql::ADD_START, params![queue, key, rate.moment(tx.now).as_micros(), count])?;
        }
        let fair = |line: &Line<_>| controls.limits(choice.names[line.queue]).fair;
        let lines: HashMap<usize, &Line<_>> = chosen.iter().map(|(line, _)| (*line, &choice.lines[*line])).collect();
        for (number, line) in lines.into_iter().filter(|(_, line)| fair(line)) {
            let key = choice.keys[number].as_deref().unwrap_or(KEYLESS);
            tx.write(sql::SAVE_TURN, params![choice.names[line.queue], key, line.turn as i64])?;
        }
        for ((queue, limiter), before) in choice.names.iter().zip(&choice.queues).zip(&choice.clocks) {
            if limiter.clock != *before {
                tx.write(sql::SAVE_TURN, params![queue, QUEUE, limiter.clock as i64])?;
            }
            if limiter::begins_round(*before, limiter.clock) {
                tx.write(sql::DELETE_OLD_TURNS, params![queue, limiter.clock as i64])?;
            }
        }
        Ok(())
    }
}

impl Chosen<'_> {
    /// Re-evaluates the keys of the chosen jobs, which are held now. Returns when a rate next allows a job that it
    /// holds back.
    pub(crate) fn evaluate_keys(&self, tx: &Tx<'_>, controls: &QueueControls) -> StoreResult<Option<Timestamp>> {
        let keys = self.keys.iter().map(|((queue, key), more)| ((*queue, key.as_str()), *more));
        let (more, full): (Vec<_>, Vec<_>) =
            keys.partition(|((queue, _), more)| *more || controls.limits(queue).key_rate.is_some());
        let more: Vec<Key<'_>> = more.into_iter().map(|(key, _)| key).collect();
        full.iter()
            .map(|(key, _)| key)
            .try_for_each(|(queue, key)| tx.write(sql::DELETE_HEADS, params![queue, key]))?;
        let mut opens_at = evaluate(tx, controls, &more)?;
        for queue in &self.left {
            if let Some(rate) = controls.limits.get(*queue).and_then(|limits| limits.rate) {
                let opens = rate.opens_at(&starts(tx, Some(rate), queue, QUEUE)?, tx.now);
                opens_at = Some(opens).filter(|at| *at > tx.now).into_iter().chain(opens_at).min();
            }
        }
        Ok(opens_at)
    }
}
