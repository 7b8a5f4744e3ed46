//! Where queued jobs stand.

use punctual_core::{ClaimRequest, Job, Spec, StoreResult, Timestamp, limiter::Order};

use super::{statements as sql, tx::Tx};
use crate::{
    db::{Row, params},
    level::Level,
};

/// Where a queued job stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) queue: &'a str,
    pub(crate) name: &'a str,
    pub(crate) level: Level,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    pub(crate) key: Option<&'a str>,
}

/// Where a job stands if it is queued.
pub(crate) fn standing(job: &Job, seq: i64) -> Standing<'_> {
    let Spec { queue, name, priority, options, .. } = &job.spec;
    let key = options.concurrency_key.as_deref();
    let level = Level::of(*priority, job.is_suspect());
    Standing { queue, name, level, run_at: job.run_at.as_micros(), seq, key }
}

/// A queue and a name, and whether its suspects are meant or the others.
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

    /// The lanes of queues and names that a claim takes from.
    pub(crate) fn of_request(request: &ClaimRequest, lanes: Vec<(String, String)>) -> Vec<Self> {
        lanes.into_iter().map(|(queue, name)| Self::new(queue, name, request.suspects)).collect()
    }

    /// The levels of its jobs.
    pub(crate) const fn levels(&self) -> (Level, Level) {
        Level::range(self.suspects)
    }
}

/// A queued job's place: the lane it stands in, and where in it.
pub(crate) struct Place<'l> {
    pub(crate) lane: &'l Lane,
    pub(crate) level: Level,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    /// Its concurrency key; empty if only its queue is limited.
    pub(crate) limit_key: Option<String>,
}

impl<'l> Place<'l> {
    /// A row of its lane.
    pub(crate) fn of(lane: &'l Lane, row: &dyn Row) -> StoreResult<Self> {
        Ok(Place { lane, level: row.get(0)?, run_at: row.get(1)?, seq: row.get(2)?, limit_key: None })
    }

    /// Sorts in the order of claims.
    pub(crate) fn order(&self, request: &ClaimRequest) -> Order {
        let rank = request.rank(&self.lane.queue, self.level.priority());
        Order { rank, run_at: Timestamp::from_micros(self.run_at), tie: self.seq as u128 }
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        let Self { lane: Lane { queue, name, .. }, level, run_at, seq, limit_key } = self;
        let key = limit_key.as_deref().filter(|key| !key.is_empty());
        Standing { queue, name, level: *level, run_at: *run_at, seq: *seq, key }
    }
}

/// The first places of lanes, so many of each.
pub(crate) fn heads<'l>(tx: &Tx<'_>, lanes: &'l [Lane], limit: usize) -> StoreResult<Vec<Place<'l>>> {
    let mut places = Vec::new();
    read_heads(tx, lanes, limit, &mut |place| {
        places.push(place);
    })?;
    Ok(places)
}

/// Goes through the first places of lanes, so many of each.
pub(crate) fn read_heads<'l>(
    tx: &Tx<'_>,
    lanes: &'l [Lane],
    limit: usize,
    each: &mut dyn FnMut(Place<'l>),
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
            each(Place::of(&lanes[lane], row)?);
            Ok(())
        },
    )
}
