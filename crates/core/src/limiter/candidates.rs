//! The candidates of a claim under limits, and what limits record of those that start. Engines read the candidates and
//! write the records.

use std::collections::{BTreeMap, BTreeSet};

use super::{Limits, Line, Order, QueueLimiter, Rate, TURN, choose};
use crate::Timestamp;

/// A queue with candidates.
#[derive(Debug, Clone, Copy)]
pub struct CandidateQueue<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its limits.
    pub limits: &'a Limits,
    /// What its limits allow now.
    pub limiter: QueueLimiter,
}

/// What the limits of a key, or of the jobs of a queue without a key, allow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimiter {
    /// The number of jobs that may start.
    pub free: u32,
    /// The turn as recorded; 0 if there is none.
    pub turn: u64,
}

impl KeyLimiter {
    /// The jobs of a queue without a key, which only the queue limits.
    pub const fn keyless(turn: u64) -> Self {
        Self { free: u32::MAX, turn }
    }
}

/// The queued jobs that a claim may start, by queue and key.
#[derive(Debug)]
pub struct Candidates<'a, T> {
    /// In the order of their names.
    queues: Vec<CandidateQueue<'a>>,
    lines: Vec<Line<T>>,
    /// The key of each line.
    keys: Vec<Option<String>>,
}

impl<'a, T> Candidates<'a, T> {
    /// Without candidates, for queues with different names.
    pub fn new(mut queues: Vec<CandidateQueue<'a>>) -> Self {
        queues.sort_unstable_by_key(|queue| queue.name);
        Self { queues, lines: Vec::new(), keys: Vec::new() }
    }

    /// Adds the jobs of a key, in any order, or those of a queue without a key. The queue must be one of those given
    /// before, or nothing is added.
    pub fn add(&mut self, (queue, key): (&str, Option<&str>), limiter: KeyLimiter, mut jobs: Vec<(Order, T)>) {
        let Ok(number) = self.queues.binary_search_by(|other| other.name.cmp(queue)) else { return };
        let CandidateQueue { limits, limiter: QueueLimiter { clock, .. }, .. } = self.queues[number];
        jobs.sort_by_key(|(order, _)| *order);
        self.keys.push(key.map(str::to_owned));
        self.lines.push(Line {
            queue: number,
            free: limiter.free,
            turn: limiter.turn.max(clock),
            step: limits.step(key),
            jobs: jobs.into(),
        });
    }

    /// Chooses at most `limit` jobs to start, as [`choose`] does.
    pub fn choose(mut self, limit: usize) -> Choice<'a, T> {
        let mut limiters: Vec<QueueLimiter> = self.queues.iter().map(|queue| queue.limiter).collect();
        let (numbers, jobs) = choose(&mut limiters, &mut self.lines, limit).into_iter().unzip();
        Choice { jobs, numbers, limiters, candidates: self }
    }
}

/// The jobs that a claim may start, and the other candidates.
#[derive(Debug)]
pub struct Choice<'a, T> {
    /// The chosen jobs, in claim order.
    pub jobs: Vec<T>,
    /// The number of each job's line.
    numbers: Vec<usize>,
    /// The limiters of the queues after the choice.
    limiters: Vec<QueueLimiter>,
    candidates: Candidates<'a, T>,
}

impl<T> Choice<'_, T> {
    /// What limits record of those chosen jobs that have started. Another process may have taken the others between the
    /// choice and the claim: then the limits of their keys are not reached as expected.
    pub fn records(&self, now: Timestamp, has_started: impl Fn(&T) -> bool) -> Records<'_> {
        let Candidates { queues, lines, keys } = &self.candidates;
        let mut records = Records::default();
        for (job, number) in self.jobs.iter().zip(&self.numbers) {
            let (line, key) = (&lines[*number], keys[*number].as_deref());
            let queue = &queues[line.queue];
            let started = has_started(job);
            if started {
                records.add_start(queue, key, now);
            }
            if started && queue.limits.fair {
                records.add_turn(queue, key, (line.turn, self.limiters[line.queue].clock));
            }
            if let Some(key) = key {
                let is_full = started && line.free == 0 && queue.limits.key_rate.is_none();
                let keys = if is_full { &mut records.full } else { &mut records.open };
                keys.insert((queue.name, key));
            }
        }
        records.full.retain(|key| !records.open.contains(key));
        let left = lines.iter().filter(|line| !line.jobs.is_empty()).map(|line| &queues[line.queue]);
        records.rates = left.filter_map(|queue| Some((queue.name, queue.limits.rate?))).collect();
        records
    }
}

/// What a record of limits is about, within a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKey<'a> {
    /// The queue as a whole.
    Queue,
    /// The jobs of the queue without a key.
    Keyless,
    /// A key.
    Key(&'a str),
}

/// The starts of a claim under one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartRecord {
    /// The moment at which they are counted.
    pub at: Timestamp,
    /// Their number.
    pub count: u32,
    /// Starts up to this time no longer count.
    pub horizon: Timestamp,
}

/// What limits record of the jobs that a claim starts, besides the leases, and which keys must be checked again.
#[derive(Debug, Default)]
pub struct Records<'a> {
    /// The starts under rates, by queue.
    pub starts: BTreeMap<(&'a str, LimitKey<'a>), StartRecord>,
    /// The changed turns in fair queues; that of a queue is its clock.
    pub turns: BTreeMap<(&'a str, LimitKey<'a>), u64>,
    /// The queues that begin another round of turns, with their clocks: keys that are not ahead of the clock need no
    /// record of their turn.
    pub rounds: BTreeMap<&'a str, u64>,
    /// Queues and keys that may have more jobs to start, now or at some time.
    pub open: BTreeSet<(&'a str, &'a str)>,
    /// Queues and keys that start no more jobs until a slot is freed.
    pub full: BTreeSet<(&'a str, &'a str)>,
    /// The rates of the queues with candidates that were not chosen.
    pub rates: BTreeMap<&'a str, Rate>,
}

impl<'a> Records<'a> {
    fn add_start(&mut self, queue: &CandidateQueue<'a>, key: Option<&'a str>, now: Timestamp) {
        let of_key = key.and_then(|key| Some((LimitKey::Key(key), queue.limits.key_rate?)));
        for (key, rate) in queue.limits.rate.map(|rate| (LimitKey::Queue, rate)).into_iter().chain(of_key) {
            let none = StartRecord { at: rate.moment(now), count: 0, horizon: rate.horizon(now) };
            self.starts.entry((queue.name, key)).or_insert(none).count += 1;
        }
    }

    fn add_turn(&mut self, queue: &CandidateQueue<'a>, key: Option<&'a str>, (turn, clock): (u64, u64)) {
        self.turns.insert((queue.name, key.map_or(LimitKey::Keyless, LimitKey::Key)), turn);
        if clock != queue.limiter.clock {
            self.turns.insert((queue.name, LimitKey::Queue), clock);
        }
        if begins_round(queue.limiter.clock, clock) {
            self.rounds.insert(queue.name, clock);
        }
    }
}

/// Whether a queue enters another round of turns when its clock changes from `from` to `to`.
const fn begins_round(from: u64, to: u64) -> bool {
    from / TURN < to / TURN
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    /// Candidates in one queue, as keys with the times of their jobs.
    fn candidates<'a>(limits: &'a Limits, clock: u64, keys: &[(Option<&str>, u32, &[u64])]) -> Candidates<'a, u64> {
        let limiter = QueueLimiter { free: u32::MAX, clock };
        let mut candidates = Candidates::new(vec![CandidateQueue { name: "mail", limits, limiter }]);
        for (key, free, times) in keys {
            let order = |time: u64| Order { rank: 0, run_at: NOW.after(Duration::from_millis(time)), tie: 0 };
            let jobs = times.iter().map(|time| (order(*time), *time)).collect();
            candidates.add(("mail", *key), KeyLimiter { free: *free, turn: 0 }, jobs);
        }
        candidates
    }

    fn rate(count: u32, secs: u64) -> Rate {
        Rate { count, period: Duration::from_secs(secs) }
    }

    #[test]
    fn a_key_at_its_limit_is_skipped_and_one_that_reaches_it_is_full() {
        let waiting: [(_, _, &[u64]); 3] = [(Some("a"), 1, &[3, 1]), (Some("b"), 0, &[0]), (Some("c"), 2, &[2])];
        let choice = candidates(Limits::none(), 0, &waiting).choose(10);
        assert_eq!(choice.jobs, [1, 2]);
        let Records { starts, turns, rounds, open, full, rates } = choice.records(NOW, |_| true);
        assert_eq!((Vec::from_iter(full), Vec::from_iter(open)), (vec![("mail", "a")], vec![("mail", "c")]));
        assert!(starts.is_empty() && turns.is_empty() && rounds.is_empty() && rates.is_empty());
    }

    #[test]
    fn a_job_that_has_not_started_is_not_recorded_and_leaves_its_key_open() {
        let limits = Limits { rate: Some(rate(9, 1)), fair: true, key_concurrency: Some(2), ..Limits::default() };
        let choice = candidates(&limits, 0, &[(Some("a"), 2, &[1, 2]), (Some("b"), 1, &[3])]).choose(10);
        let records = choice.records(NOW, |job| *job == 1);
        assert_eq!(records.starts[&("mail", LimitKey::Queue)].count, 1);
        assert_eq!(Vec::from_iter(records.turns.keys()), [&("mail", LimitKey::Queue), &("mail", LimitKey::Key("a"))]);
        assert_eq!(Vec::from_iter(records.open), [("mail", "a"), ("mail", "b")]);
        assert!(records.full.is_empty());
    }

    #[test]
    fn starts_count_for_the_rate_of_the_queue_and_for_that_of_the_key() {
        let (of_queue, of_key) = (rate(100, 1), rate(2, 60));
        let limits = Limits { rate: Some(of_queue), key_rate: Some(of_key), ..Limits::default() };
        let choice = candidates(&limits, 0, &[(None, u32::MAX, &[1, 2, 4]), (Some("a"), 1, &[3])]).choose(3);
        let records = choice.records(NOW, |_| true);
        let record = |rate: Rate, count| StartRecord { at: rate.moment(NOW), count, horizon: rate.horizon(NOW) };
        let expected =
            [(("mail", LimitKey::Queue), record(of_queue, 3)), (("mail", LimitKey::Key("a")), record(of_key, 1))];
        assert_eq!(records.starts, BTreeMap::from(expected));
        assert_eq!(records.rates, BTreeMap::from([("mail", of_queue)]), "one job is left");
        assert_eq!(Vec::from_iter(records.open), [("mail", "a")], "its rate has to be checked");
    }

    #[test]
    fn turns_are_recorded_and_a_round_begins_when_the_clock_passes_it() {
        let weights = BTreeMap::from([("a".to_owned(), 2)]);
        let limits = Limits { fair: true, weights, ..Limits::default() };
        let waiting: [(_, _, &[u64]); 2] = [(None, u32::MAX, &[0]), (Some("a"), 5, &[1, 2])];
        let choose = |limit| candidates(&limits, TURN / 2, &waiting).choose(limit);
        let turn = |key, turn| (("mail", key), turn);
        let (keyless, key) = (LimitKey::Keyless, LimitKey::Key("a"));
        let choice = choose(2);
        let records = choice.records(NOW, |_| true);
        assert_eq!(records.turns, BTreeMap::from([turn(keyless, TURN + TURN / 2), turn(key, TURN)]));
        assert!(records.rounds.is_empty());
        let choice = choose(3);
        let records = choice.records(NOW, |_| true);
        let expected = [turn(LimitKey::Queue, TURN), turn(keyless, TURN + TURN / 2), turn(key, TURN + TURN / 2)];
        assert_eq!(records.turns, BTreeMap::from(expected));
        assert_eq!(records.rounds, BTreeMap::from([("mail", TURN)]));
    }
}
