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
        rows, statements as sql,
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
            queues.iter().filter(|queue| self.known.limits.contains_key(*queue)).map(String::as_str).collect();
        let mut limiters = vec![QueueLimiter::OPEN; names.len()];
        if !limited.is_empty() {
            let passed = self.passed_queues(connection, &limited, now).await?;
            let turns =
                turns(connection, self.known, &limited.iter().map(|queue| (*queue, QUEUE)).collect::<Vec<_>>()).await?;
            for ((queue, passed), clock) in limited.iter().zip(passed).zip(turns) {
                let number = names.partition_point(|name| name.as_str() < *queue);
                limiters[number] = QueueLimiter { free: self.known.limits(queue).free(&passed, now), clock };
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
            Plain::Spots(spots) => (&[], spots),
        };
        let mut waiting: BTreeMap<&str, Vec<(Order, ReadyKey)>> = BTreeMap::new();
        if !found.is_empty() {
            waiting.insert("", found.iter().map(|(lane, spot)| (order(lane, spot), *spot)).collect());
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
        let (times, ids) = bounds(self.look, lanes.values().map(|(_, lane)| *lane));
        let rows = sqlx::query(*sql::PLAIN_FIRST)
            .bind(lanes.keys().copied().collect::<Vec<_>>())
            .bind(times)
            .bind(ids)
            .bind(self.request.limit as i64)
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            let place = ReadyKey { lane: row.try_get(0)?, run_at: rows::instant(row, 1)?, id: job_id(row.try_get(2)?) };
            let Some((queue, lane)) = lanes.get(&place.lane) else { continue };
            waiting.entry(queue).or_default().push((order(lane, &place), place));
        }
        let shares: Vec<(&str, &str)> = waiting.keys().map(|queue| (*queue, KEYLESS)).collect();
        let turns = turns(connection, self.known, &shares).await?;
        for ((name, mut jobs), turn) in waiting.into_iter().zip(turns) {
            jobs.sort_unstable_by_key(|(order, _)| *order);
            let (queue, limits) = (choice.number(name), self.known.limits(name));
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
        let rows = query.bind(self.request.limit as i64).fetch_all(&mut *connection).await?;
        let mut found: BTreeMap<QueueKey, (u64, Vec<i32>)> = BTreeMap::new();
        for row in &rows {
            let head = found.entry((row.try_get(1)?, row.try_get(2)?)).or_default();
            head.0 = row.try_get::<i64, _>(3)? as u64;
            head.1.push(row.try_get(0)?);
        }
        let keys: BTreeSet<QueueKey> = found.keys().cloned().collect();
        let passed = key_usages(connection, self.known, &keys, now).await?;
        let (mut wanted, first) = (Wanted::default(), choice.lines.len());
        for ((number, ((name, key), (turn, lanes))), passed) in found.into_iter().enumerate().zip(passed) {
            let (queue, limits) = (choice.number(&name), self.known.limits(&name));
            let free = limits.key_free(&passed, now);
            for lane in lanes {
                wanted.add(number, &key, lane, free.min(self.request.limit as u32));
            }
            let (turn, step) = (turn.max(choice.queues[queue].clock), limits.step(Some(&key)));
            choice.keys.push(Some(key));
            choice.lines.push(Line { queue, free, turn, step, jobs: Default::default() });
        }
        for row in &wanted.read(connection).await? {
            let place = ReadyKey { lane: row.try_get(1)?, run_at: rows::instant(row, 2)?, id: job_id(row.try_get(3)?) };
            if let Some(lane) = lanes.get(&place.lane) {
                let number = first + row.try_get::<i32, _>(0)? as usize;
                choice.lines[number].jobs.push_back((order(lane, &place), place));
            }
        }
        for line in &mut choice.lines[first..] {
            line.jobs.make_contiguous().sort_unstable_by_key(|(order, _)| *order);
        }
        Ok(())
    }

    async fn passed_queues(
        &self,
        connection: &mut PgConnection,
        queues: &[&str],
        now: Timestamp,
    ) -> sqlx::Result<Vec<LimitUsage>> {
        let rows = sqlx::query(*sql::HELD_OF_QUEUES).bind(queues).bind(At(now)).fetch_all(&mut *connection).await?;
        let running: HashMap<String, i64> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
        let rates = queues.iter().filter_map(|queue| Some((*queue, QUEUE, self.known.limits.get(*queue)?.rate?)));
        let rates: Vec<_> = rates.collect();
        let lately: HashMap<&str, Vec<_>> =
            rates.iter().map(|(queue, ..)| *queue).zip(starts(connection, &rates, now).await?).collect();
        let passed = |queue: &&str| LimitUsage {
            running: running.get(*queue).copied().unwrap_or(0) as u32,
            starts: lately.get(queue).cloned().unwrap_or_default(),
        };
        Ok(queues.iter().map(passed).collect())
    }
}

/// The sort order of a position within the claim.
fn order(lane: &Served, place: &ReadyKey) -> Order {
    Order { rank: lane.rank as u32, run_at: place.run_at, tie: place.id.to_bits() }
}

/// The jobs that a claim reads, by key and lane.
#[derive(Default)]
struct Wanted {
    numbers: Vec<i32>,
    keys: Vec<String>,
    lanes: Vec<i32>,
    counts: Vec<i64>,
}

impl Wanted {
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
