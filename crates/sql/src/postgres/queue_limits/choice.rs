//! The candidates of a claim that applies limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    Timestamp,
    limiter::{LimitUsage, Line, Order, QueueLimiter},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    super::{
        lanes::Served,
        ready_keys, rows, statements as sql,
        take::{Plain, ReadyKey},
        value::{At, job_id},
    },
    KEYLESS, LimitedClaim, LimitedLane, QUEUE, QueueKey, bounds,
    usage::{key_usages, starts, turns},
};

/// The candidates of a claim. Jobs without limits belong to a queue with an empty name.
pub(super) struct Candidates {
    pub(super) names: Vec<String>,
    pub(super) queues: Vec<QueueLimiter>,
    /// The clocks of the queues before the choice.
    pub(super) clocks: Vec<u64>,
    /// The key of each line.
    pub(super) keys: Vec<Option<String>>,
    pub(super) lines: Vec<Line<ReadyKey>>,
}

impl Candidates {
    pub(super) fn number(&self, queue: &str) -> usize {
        self.names.partition_point(|name| name.as_str() < queue)
    }
}

impl LimitedClaim<'_> {
    /// Reads the candidates of limited queues, and those without limits.
    pub(super) async fn choice(
        &self,
        connection: &mut PgConnection,
        queues: &BTreeSet<String>,
        now: Timestamp,
    ) -> sqlx::Result<Candidates> {
        let names: Vec<String> = [String::new()].into_iter().chain(queues.iter().cloned()).collect();
        let limited: Vec<&str> =
            queues.iter().filter(|queue| self.scan.queues.limits.contains_key(*queue)).map(String::as_str).collect();
        let mut limiters = vec![QueueLimiter::OPEN; names.len()];
        if !limited.is_empty() {
            let usages = self.queue_usages(connection, &limited, now).await?;
            let turns =
                turns(connection, self.scan.queues, &limited.iter().map(|queue| (*queue, QUEUE)).collect::<Vec<_>>())
                    .await?;
            for ((queue, usage), clock) in limited.iter().zip(usages).zip(turns) {
                let number = names.partition_point(|name| name.as_str() < *queue);
                limiters[number] = QueueLimiter { free: self.scan.queues.limits(queue).free(&usage, now), clock };
            }
        }
        let clocks = limiters.iter().map(|limiter| limiter.clock).collect();
        let mut choice = Candidates { names, queues: limiters, clocks, keys: Vec::new(), lines: Vec::new() };
        self.add_plain(connection, &mut choice).await?;
        self.add_keyed(connection, &mut choice, now).await?;
        Ok(choice)
    }

    /// The lanes of the queues that the claim has locked.
    fn lanes_at(&self, choice: &Candidates, keyed: bool) -> Vec<&LimitedLane> {
        let is_at = |queue: &String| choice.names.get(choice.number(queue)) == Some(queue);
        self.lanes.iter().copied().filter(|(queue, lane)| lane.keyed == keyed && is_at(queue)).collect()
    }

    /// Adds lines of jobs without a key: one per limited queue, and one for jobs without limits.
    async fn add_plain(&self, connection: &mut PgConnection, choice: &mut Candidates) -> sqlx::Result<()> {
        let limited = self.lanes_at(choice, false).into_iter().map(|(queue, lane)| (queue.as_str(), lane));
        let (lanes, found): (&[Served], &[(Served, ReadyKey)]) = match self.plain {
            Plain::Lanes(lanes) => (lanes, &[]),
            Plain::Keys(keys) => (&[], keys),
        };
        let mut waiting: BTreeMap<&str, Vec<(Order, ReadyKey)>> = BTreeMap::new();
        if !found.is_empty() {
            waiting.insert("", found.iter().map(|(lane, key)| (order(lane, key), *key)).collect());
        }
        let lanes: HashMap<i32, (&str, &Served)> = lanes
            .iter()
            .map(|lane| ("", lane))
            .chain(limited)
            .map(|(queue, lane)| (lane.number, (queue, lane)))
            .collect();
        if lanes.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        let (times, ids) = bounds(self.scan.mode, lanes.values().map(|(_, lane)| *lane));
        let rows = sqlx::query(*sql::PLAIN_FIRST)
            .bind(lanes.keys().copied().collect::<Vec<_>>())
            .bind(times)
            .bind(ids)
            .bind(self.scan.request.limit as i64)
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            let key = ready_keys::read(row)?;
            let Some((queue, lane)) = lanes.get(&key.lane) else { continue };
            waiting.entry(queue).or_default().push((order(lane, &key), key));
        }
        let shares: Vec<(&str, &str)> = waiting.keys().map(|queue| (*queue, KEYLESS)).collect();
        let turns = turns(connection, self.scan.queues, &shares).await?;
        for ((name, mut jobs), turn) in waiting.into_iter().zip(turns) {
            jobs.sort_unstable_by_key(|(order, _)| *order);
            let (queue, limits) = (choice.number(name), self.scan.queues.limits(name));
            let turn = turn.max(choice.queues[queue].clock);
            choice.keys.push(None);
            choice.lines.push(Line { queue, free: u32::MAX, turn, step: limits.step(None), jobs: jobs.into() });
        }
        Ok(())
    }

    /// Adds lines of the keys that may start a job.
    async fn add_keyed(
        &self,
        connection: &mut PgConnection,
        choice: &mut Candidates,
        now: Timestamp,
    ) -> sqlx::Result<()> {
        let lanes: HashMap<i32, &Served> =
            self.lanes_at(choice, true).into_iter().map(|(_, lane)| (lane.number, lane)).collect();
        let query = sqlx::query(*sql::HEADS).bind(lanes.keys().copied().collect::<Vec<_>>());
        let rows = query.bind(self.scan.request.limit as i64).fetch_all(&mut *connection).await?;
        let mut found: BTreeMap<QueueKey, (u64, Vec<i32>)> = BTreeMap::new();
        for row in &rows {
            let head = found.entry((row.try_get(1)?, row.try_get(2)?)).or_default();
            head.0 = row.try_get::<i64, _>(3)? as u64;
            head.1.push(row.try_get(0)?);
        }
        let keys: BTreeSet<QueueKey> = found.keys().cloned().collect();
        let usages = key_usages(connection, self.scan.queues, &keys, now).await?;
        let (mut first_jobs, first) = (FirstJobs::default(), choice.lines.len());
        for ((number, ((name, key), (turn, lanes))), usage) in found.into_iter().enumerate().zip(usages) {
            let (queue, limits) = (choice.number(&name), self.scan.queues.limits(&name));
            let free = limits.key_free(&usage, now);
            for lane in lanes {
                first_jobs.add(number, &key, lane, free.min(self.scan.request.limit as u32));
            }
            let (turn, step) = (turn.max(choice.queues[queue].clock), limits.step(Some(&key)));
            choice.keys.push(Some(key));
            choice.lines.push(Line { queue, free, turn, step, jobs: Default::default() });
        }
        for row in &first_jobs.read(connection).await? {
            let key = ReadyKey { lane: row.try_get(1)?, run_at: rows::instant(row, 2)?, id: job_id(row.try_get(3)?) };
            if let Some(lane) = lanes.get(&key.lane) {
                let number = first + row.try_get::<i32, _>(0)? as usize;
                choice.lines[number].jobs.push_back((order(lane, &key), key));
            }
        }
        for line in &mut choice.lines[first..] {
            line.jobs.make_contiguous().sort_unstable_by_key(|(order, _)| *order);
        }
        Ok(())
    }

    /// The usage of the limits of queues, in their order.
    async fn queue_usages(
        &self,
        connection: &mut PgConnection,
        queues: &[&str],
        now: Timestamp,
    ) -> sqlx::Result<Vec<LimitUsage>> {
        let rows = sqlx::query(*sql::HELD_OF_QUEUES).bind(queues).bind(At(now)).fetch_all(&mut *connection).await?;
        let running: HashMap<String, i64> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
        let rates = queues.iter().filter_map(|queue| Some((*queue, QUEUE, self.scan.queues.limits.get(*queue)?.rate?)));
        let rates: Vec<_> = rates.collect();
        let recent: HashMap<&str, Vec<_>> =
            rates.iter().map(|(queue, ..)| *queue).zip(starts(connection, &rates, now).await?).collect();
        let usage = |queue: &&str| LimitUsage {
            running: running.get(*queue).copied().unwrap_or(0) as u32,
            starts: recent.get(queue).cloned().unwrap_or_default(),
        };
        Ok(queues.iter().map(usage).collect())
    }
}

/// The sort order of a job within the claim.
fn order(lane: &Served, key: &ReadyKey) -> Order {
    Order { rank: lane.rank as u32, run_at: key.run_at, tie: key.id.to_bits() }
}

/// How many of the first jobs of each key and lane a claim reads.
#[derive(Default)]
struct FirstJobs {
    numbers: Vec<i32>,
    keys: Vec<String>,
    lanes: Vec<i32>,
    counts: Vec<i64>,
}

impl FirstJobs {
    fn add(&mut self, number: usize, key: &str, lane: i32, count: u32) {
        if count > 0 {
            self.numbers.push(number as i32);
            self.keys.push(key.to_owned());
            self.lanes.push(lane);
            self.counts.push(i64::from(count));
        }
    }

    async fn read(self, connection: &mut PgConnection) -> sqlx::Result<Vec<PgRow>> {
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        let query = sqlx::query(*sql::KEYED_FIRST).bind(self.numbers).bind(self.keys).bind(self.lanes);
        query.bind(self.counts).fetch_all(connection).await
    }
}
