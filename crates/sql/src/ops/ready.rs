//! The positions of queued jobs in their indexes.

use punctual_core::{ClaimRequest, StoreResult, Timestamp, limiter::Order};

use super::{statements as sql, tx::Tx};
use crate::{
    db::{Row, params},
    level::Level,
};

/// The index entry of a queued job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadyEntry<'a> {
    pub(crate) queue: &'a str,
    pub(crate) name: &'a str,
    pub(crate) level: Level,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    pub(crate) key: Option<&'a str>,
}

/// A queue and a name, and whether the lane has the suspects or the other jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) queue: String,
    pub(crate) name: String,
    suspects: bool,
}

impl Lane {
    pub(crate) fn new(queue: impl Into<String>, name: impl Into<String>, suspects: bool) -> Self {
        Self { queue: queue.into(), name: name.into(), suspects }
    }

    /// The lanes of these queues and names that a claim takes from.
    pub(crate) fn of_request(request: &ClaimRequest, lanes: Vec<(String, String)>) -> Vec<Self> {
        lanes.into_iter().map(|(queue, name)| Self::new(queue, name, request.suspects)).collect()
    }

    /// The first and the last level of the lane's jobs.
    pub(crate) const fn levels(&self) -> (Level, Level) {
        Level::range(self.suspects)
    }
}

/// The position of a queued job: its lane, and its sort key within the lane.
pub(crate) struct ReadyJob<'l> {
    pub(crate) lane: &'l Lane,
    pub(crate) level: Level,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    /// The job's concurrency key; empty if only its queue is limited.
    pub(crate) limit_key: Option<String>,
}

impl<'l> ReadyJob<'l> {
    /// From a row of the lane.
    pub(crate) fn of(lane: &'l Lane, row: &dyn Row) -> StoreResult<Self> {
        Ok(ReadyJob { lane, level: row.get(0)?, run_at: row.get(1)?, seq: row.get(2)?, limit_key: None })
    }

    /// The sort key for claim order.
    pub(crate) fn order(&self, request: &ClaimRequest) -> Order {
        let rank = request.rank(&self.lane.queue, self.level.priority());
        Order { rank, run_at: Timestamp::from_micros(self.run_at), tie: self.seq as u128 }
    }

    /// The index entry of the job.
    pub(crate) fn entry(&self) -> ReadyEntry<'_> {
        let Self { lane: Lane { queue, name, .. }, level, run_at, seq, limit_key } = self;
        let key = limit_key.as_deref().filter(|key| !key.is_empty());
        ReadyEntry { queue, name, level: *level, run_at: *run_at, seq: *seq, key }
    }
}

/// The first jobs of lanes, up to `limit` for each.
pub(crate) fn heads<'l>(tx: &Tx<'_>, lanes: &'l [Lane], limit: usize) -> StoreResult<Vec<ReadyJob<'l>>> {
    let mut jobs = Vec::new();
    read_heads(tx, lanes, limit, &mut |job| {
        jobs.push(job);
    })?;
    Ok(jobs)
}

/// Calls `each` with the first jobs of lanes, up to `limit` for each.
pub(crate) fn read_heads<'l>(
    tx: &Tx<'_>,
    lanes: &'l [Lane],
    limit: usize,
    each: &mut dyn FnMut(ReadyJob<'l>),
) -> StoreResult<()> {
    tx.db.read_each(
        sql::LANE_HEAD,
        &mut |row| {
            lanes.iter().try_for_each(|lane| {
                let (first, last) = lane.levels();
                row(params![lane.queue, lane.name, limit, first, last])
            })
        },
        &mut |lane, row| {
            each(ReadyJob::of(&lanes[lane], row)?);
            Ok(())
        },
    )
}
