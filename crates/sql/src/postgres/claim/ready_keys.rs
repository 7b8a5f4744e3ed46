//! The rows in `punctual_ready` of hinted jobs.

use std::{collections::HashMap, sync::Arc};

use punctual_core::dispatch::{Hint, Lane};
use sqlx::{Row, postgres::PgRow};

use super::{
    super::{
        core::Core,
        rows,
        value::{At, Uuid, job_id, uuid},
    },
    lanes::Served,
    take::ReadyKey,
};

/// The keys of hinted jobs in lanes that the worker serves. A job that is not due yet is stored in another table.
pub(crate) fn of_hints(store: &Core, hints: &[Hint], lanes: &[Served]) -> Vec<(Served, ReadyKey)> {
    let served: HashMap<i32, Served> = lanes.iter().map(|lane| (lane.number, *lane)).collect();
    let numbers = store.lanes.plain(hints.iter().map(|hint| &*hint.lane));
    let key = |(hint, number): (&Hint, Option<i32>)| {
        let lane = *served.get(&number?)?;
        Some((lane, ReadyKey { lane: lane.number, run_at: hint.run_at, id: hint.job }))
    };
    hints.iter().zip(numbers).filter_map(key).collect()
}

/// Keys as columns: lanes, times and ids. A lane that is not known gets the number 0, which no job has.
pub(crate) fn columns<'a>(
    store: &Core,
    hints: impl Iterator<Item = &'a Hint> + Clone,
) -> (Vec<i32>, Vec<At>, Vec<Uuid>) {
    let numbers = store.lanes.plain(hints.clone().map(|hint| &*hint.lane));
    let lanes = numbers.into_iter().map(Option::unwrap_or_default).collect();
    let (times, ids) = hints.map(|hint| (At(hint.run_at), uuid(hint.job))).unzip();
    (lanes, times, ids)
}

/// Reads a row of lane, time and id.
pub(crate) fn read(row: &PgRow) -> sqlx::Result<ReadyKey> {
    Ok(ReadyKey { lane: row.try_get(0)?, run_at: rows::instant(row, 1)?, id: job_id(row.try_get(2)?) })
}

/// Converts keys to hints.
pub(crate) fn hints(store: &Core, keys: &[ReadyKey]) -> Vec<Hint> {
    let mut last: Option<(i32, Arc<Lane>)> = None;
    let hint = |key: &ReadyKey| {
        if last.as_ref().is_none_or(|(former, _)| *former != key.lane) {
            last = store.lanes.shared(key.lane).map(|lane| (key.lane, lane));
        }
        let lane = Arc::clone(&last.as_ref()?.1);
        Some(Hint { lane, run_at: key.run_at, job: key.id })
    };
    keys.iter().filter_map(hint).collect()
}
