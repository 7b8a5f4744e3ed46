//! The candidates of a claim that applies limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    Timestamp,
    limiter::{CandidateQueue, Candidates, KeyLimiter, LimitUsage, Order, QueueLimiter},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    super::{
        claim::{
            lanes::Served,
            ready_keys,
            take::{Plain, ReadyKey},
        },
        rows, statements as sql,
        value::{At, job_id},
    },
    KEYLESS, Key, LimitedClaim, LimitedLane, QUEUE, QueueKey, bounds,
    usage::{key_usages, starts, turns},
};

impl LimitedClaim<'_> {
    /// Reads the candidates of the queues that the claim has locked, and those without limits, which belong to a queue
    /// with an empty name.
    pub(super) async fn candidates<'q>(
        &'q self,
        connection: &mut PgConnection,
        queues: &'q BTreeSet<String>,
        now: Timestamp,
    ) -> sqlx::Result<Candidates<'q, ReadyKey>> {
        let mut candidates = Candidates::new(self.limiters(connection, queues, now).await?);
        let lanes = self.lanes.iter().copied().filter(|(queue, _)| queues.contains(queue));
        let (keyed, plain): (Vec<&LimitedLane>, Vec<&LimitedLane>) = lanes.partition(|(_, lane)| lane.keyed);
        self.add_plain(connection, &plain, &mut candidates).await?;
        self.add_keyed(connection, (&keyed, now), &mut candidates).await?;
        Ok(candidates)
    }

    /// What the limits of queues allow.
    async fn limiters<'q>(
        &'q self,
        connection: &mut PgConnection,
        queues: &'q BTreeSet<String>,
        now: Timestamp,
    ) -> sqlx::Result<Vec<CandidateQueue<'q>>> {
        let known = self.scan.queues;
        let (limited, open): (Vec<&'q str>, Vec<&'q str>) =
            queues.iter().map(String::as_str).partition(|queue| known.limits.contains_key(*queue));
        let mut found: Vec<CandidateQueue<'q>> = Vec::with_capacity(queues.len() + 1);
        for name in [""].into_iter().chain(open) {
            found.push(CandidateQueue { name, limits: known.limits(name), limiter: QueueLimiter::OPEN });
        }
        if limited.is_empty() {
            return Ok(found);
        }
        let usages = self.queue_usages(connection, &limited, now).await?;
        let clocks: Vec<Key<'_>> = limited.iter().map(|queue| (*queue, QUEUE)).collect();
        let clocks = turns(connection, known, &clocks).await?;
        for ((name, usage), clock) in limited.into_iter().zip(usages).zip(clocks) {
            let limits = known.limits(name);
            let limiter = QueueLimiter { free: limits.free(&usage, now), clock };
            found.push(CandidateQueue { name, limits, limiter });
        }
        Ok(found)
    }

    /// Adds jobs without a key: those of each limited queue, and those without limits.
    async fn add_plain(
        &self,
        connection: &mut PgConnection,
        limited: &[&LimitedLane],
        candidates: &mut Candidates<'_, ReadyKey>,
    ) -> sqlx::Result<()> {
        let limited = limited.iter().map(|(queue, lane)| (queue.as_str(), lane));
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
        let keys: Vec<Key<'_>> = waiting.keys().map(|queue| (*queue, KEYLESS)).collect();
        let turns = turns(connection, self.scan.queues, &keys).await?;
        for ((queue, jobs), turn) in waiting.into_iter().zip(turns) {
            candidates.add((queue, None), KeyLimiter::keyless(turn), jobs);
        }
        Ok(())
    }

    /// Adds the first jobs of the keys that may start a job now.
    async fn add_keyed(
        &self,
        connection: &mut PgConnection,
        (lanes, now): (&[&LimitedLane], Timestamp),
        candidates: &mut Candidates<'_, ReadyKey>,
    ) -> sqlx::Result<()> {
        let lanes: HashMap<i32, &Served> = lanes.iter().map(|(_, lane)| (lane.number, lane)).collect();
        let query = sqlx::query(*sql::HEADS).bind(lanes.keys().copied().collect::<Vec<_>>());
        let rows = query.bind(self.scan.request.limit as i64).fetch_all(&mut *connection).await?;
        let mut found: BTreeMap<QueueKey, (u64, Vec<i32>)> = BTreeMap::new();
        for row in &rows {
            let head = found.entry((row.try_get(1)?, row.try_get(2)?)).or_default();
            head.0 = row.try_get::<i64, _>(3)? as u64;
            head.1.push(row.try_get(0)?);
        }
        let keys: BTreeSet<Key<'_>> = found.keys().map(|(queue, key)| (queue.as_str(), key.as_str())).collect();
        let usages = key_usages(connection, self.scan.queues, &keys, now).await?;
        let (mut first_jobs, mut limiters) = (FirstJobs::default(), Vec::with_capacity(keys.len()));
        for ((number, ((queue, key), (turn, lanes))), usage) in found.iter().enumerate().zip(usages) {
            let free = self.scan.queues.limits(queue).key_free(&usage, now);
            for lane in lanes {
                first_jobs.add(number, key, *lane, free.min(self.scan.request.limit as u32));
            }
            limiters.push(KeyLimiter { free, turn: *turn });
        }
        let mut jobs: Vec<Vec<(Order, ReadyKey)>> = vec![Vec::new(); keys.len()];
        for row in &first_jobs.read(connection).await? {
            let key = ReadyKey { lane: row.try_get(1)?, run_at: rows::instant(row, 2)?, id: job_id(row.try_get(3)?) };
            if let Some(lane) = lanes.get(&key.lane) {
                jobs[row.try_get::<i32, _>(0)? as usize].push((order(lane, &key), key));
            }
        }
        for (((queue, key), limiter), jobs) in keys.into_iter().zip(limiters).zip(jobs) {
            candidates.add((queue, Some(key)), limiter, jobs);
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
