//! Where queued jobs stand.

use punctual_core::{ClaimRequest, Job, Spec, StoreResult, Timestamp, gate::Order};

use super::{statements as sql, tx::Tx};
use crate::db::{Row, params};

/// Where a queued job stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) queue: &'a str,
    pub(crate) name: &'a str,
    pub(crate) priority: u8,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    pub(crate) key: Option<&'a str>,
}

/// Where a job stands if it is queued.
pub(crate) fn standing(job: &Job, seq: i64) -> Standing<'_> {
    let Spec { queue, name, priority, extras, .. } = &job.spec;
    let key = extras.concurrency_key.as_deref();
    Standing { queue, name, priority: *priority, run_at: job.run_at.as_micros(), seq, key }
}

/// A queue and a name.
pub(crate) type Lane = (String, String);

/// A queued job's place: the lane it stands in, and where in it.
pub(crate) struct Place<'l> {
    pub(crate) lane: &'l Lane,
    pub(crate) priority: u8,
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    /// The gate that it has to pass: its key, or nothing for that of its queue alone.
    pub(crate) gate: Option<String>,
}

impl<'l> Place<'l> {
    /// A row of its lane.
    pub(crate) fn of(lane: &'l Lane, row: &dyn Row) -> StoreResult<Self> {
        Ok(Place { lane, priority: row.get(0)?, run_at: row.get(1)?, seq: row.get(2)?, gate: None })
    }

    /// Sorts in the order of claims.
    pub(crate) fn order(&self, request: &ClaimRequest) -> Order {
        let rank = request.rank(&self.lane.0, self.priority);
        Order { rank, run_at: Timestamp::from_micros(self.run_at), tie: self.seq as u128 }
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        let Self { lane: (queue, name), priority, run_at, seq, gate } = self;
        let key = gate.as_deref().filter(|key| !key.is_empty());
        Standing { queue, name, priority: *priority, run_at: *run_at, seq: *seq, key }
    }
}

/// The first places of lanes, so many of each.
pub(crate) fn heads<'l>(tx: &Tx<'_>, lanes: &'l [Lane], limit: usize) -> StoreResult<Vec<Place<'l>>> {
    let mut places = Vec::new();
    tx.db.read_each(
        sql::LANE_HEAD,
        &mut |row| lanes.iter().try_for_each(|(queue, name)| row(params![queue, name, limit])),
        &mut |lane, row| {
            places.push(Place::of(&lanes[lane], row)?);
            Ok(())
        },
    )?;
    Ok(places)
}
