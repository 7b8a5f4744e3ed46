//! The rows in `punctual_ready` of hinted jobs.

use std::{collections::HashMap, sync::Arc};

use punctual_core::dispatch::{Hint, Lane};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    lanes::Served,
    rows,
    take::ReadyKey,
    value::{At, Uuid, job_id, uuid},
};

/// The keys of hinted jobs in lanes that the worker serves. A job that is not due yet is stored in another table.
pub(crate) fn spots(store: &Core, hints: &[Hint], lanes: &[Served]) -> Vec<(Served, ReadyKey)> {
    let served: HashMap<i32, Served> = lanes.iter().map(|lane| (lane.number, *lane)).collect();
    let numbers = store.lanes.plain(hints.iter().map(|hint| &*hint.lane));
    let spot = |(hint, number): (&Hint, Option<i32>)| {
        let lane = *served.get(&number?)?;
        Some((lane, ReadyKey { lane: lane.number, run_at: hint.run_at, id: hint.job }))
    };
    hints.iter().zip(numbers).filter_map(spot).collect()
}

/// Keys as columns: lanes, times and ids. A lane that is not known gets the number 0, which no job has.
pub(crate) fn places<'a>(
    store: &Core,
    hints: impl Iterator<Item = &'a Hint> + Clone,
) -> (Vec<i32>, Vec<At>, Vec<Uuid>) {
    let numbers = store.lanes.plain(hints.clone().map(|hint| &*hint.lane));
    let lanes = numbers.into_iter().map(Option::unwrap_or_default).collect();
    let (times, ids) = hints.map(|hint| (At(hint.run_at), uuid(hint.job))).unzip();
    (lanes, times, ids)
}

/// Reads a row of lane, time and id.
pub(crate) fn spot(row: &PgRow) -> sqlx::Result<ReadyKey> {
    Ok(ReadyKey { lane: row.try_get(0)?, run_at: rows::instant(row, 1)?, id: job_id(row.try_get(2)?) })
}

/// Converts keys to hints.
pub(crate) fn hints(store: &Core, spots: &[ReadyKey]) -> Vec<Hint> {
    let mut last: Option<(i32, Arc<Lane>)> = None;
    let hint = |spot: &ReadyKey| {
        if last.as_ref().is_none_or(|(former, _)| *former != spot.lane) {
            last = store.lanes.shared(spot.lane).map(|lane| (spot.lane, lane));
        }
        let lane = Arc::clone(&last.as_ref()?.1);
        Some(Hint { lane, run_at: spot.run_at, job: spot.id })
    };
    spots.iter().filter_map(hint).collect()
}
