//! What `punctual doctor` checks in every engine of these operations.

use std::collections::BTreeMap;

use punctual_core::{Diagnostic, StoreResult};

use super::{read, statements as sql};
use crate::db::{Db, Row};

/// Checks the counters, the indexes of unfinished jobs, and the event histories.
pub(crate) fn check(db: &dyn Db) -> StoreResult<Vec<Diagnostic>> {
    Ok(vec![counters(db)?, indexes(db)?, histories(db)?])
}

pub(crate) fn diagnostic(check: &str, ok: bool, message: impl Into<String>) -> Diagnostic {
    Diagnostic { check: check.into(), ok, message: message.into() }
}

/// Every counter must equal the number of its rows.
fn counters(db: &dyn Db) -> StoreResult<Diagnostic> {
    type Counts = BTreeMap<(String, String, String), u64>;
    let stored: Counts = read::counts(db)?
        .into_iter()
        .map(|count| ((count.queue, count.name, count.status.to_string()), count.count))
        .collect();
    let of = |row: &dyn Row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?));
    let actual: Counts = db.all(sql::CHECK_COUNTS, &[], of)?.into_iter().collect();
    let of = |row: &dyn Row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
    let pending: BTreeMap<(String, String), i64> = db.all(sql::PENDING_BY_USER, &[], of)?.into_iter().collect();
    let actual_pending = db.all(sql::CHECK_PENDING, &[], of)?.into_iter().collect();
    let ok = stored == actual && pending == actual_pending;
    let message = if ok {
        format!("{} jobs, counters match", actual.values().sum::<u64>())
    } else {
        let wrong = actual.iter().filter(|(key, count)| stored.get(*key) != Some(count)).count();
        format!("{wrong} of {} counters are wrong; was something edited by hand?", actual.len())
    };
    Ok(diagnostic("counters", ok, message))
}

/// Every unfinished job must be in the index that claims read.
fn indexes(db: &dyn Db) -> StoreResult<Diagnostic> {
    let misplaced: i64 = db.only(sql::CHECK_PLACES, &[], |row| row.get(0))?;
    let message = match misplaced {
        0 => "job indexes are consistent".to_owned(),
        _ => format!("{misplaced} jobs have inconsistent index entries"),
    };
    Ok(diagnostic("indexes", misplaced == 0, message))
}

/// Every event must be reachable from its job's last one.
fn histories(db: &dyn Db) -> StoreResult<Diagnostic> {
    let broken: i64 = db.only(sql::CHECK_HISTORIES, &[], |row| row.get(0))?;
    let message = if broken == 0 {
        "event history is complete".to_owned()
    } else {
        format!("{broken} event histories are incomplete")
    };
    Ok(diagnostic("events", broken == 0, message))
}
