//! What `punctual doctor` checks in every engine of these operations.

use std::collections::BTreeMap;

use punctual_core::{Diagnostic, Queue, StoreResult};

use super::{queues, read, statements as sql};
use crate::db::{Db, Row};

/// Checks the counters, the indexes of unfinished jobs, the event histories, and the settings of queues.
pub(crate) fn check(db: &dyn Db) -> StoreResult<Vec<Diagnostic>> {
    Ok(vec![counters(db)?, indexes(db)?, histories(db)?, queue_settings(db)?])
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
    let actual_pending: BTreeMap<_, _> = db.all(sql::CHECK_PENDING, &[], of)?.into_iter().collect();
    Ok(counters_result((differences(&stored, &actual) + differences(&pending, &actual_pending)) as i64))
}

/// The number of keys whose values differ, or that only one of the maps contains.
fn differences<K: Ord, V: PartialEq>(stored: &BTreeMap<K, V>, actual: &BTreeMap<K, V>) -> usize {
    let wrong = stored.iter().filter(|(key, value)| actual.get(*key) != Some(*value)).count();
    wrong + actual.keys().filter(|key| !stored.contains_key(*key)).count()
}

/// The result of the check of the counters in any engine.
pub(crate) fn counters_result(wrong: i64) -> Diagnostic {
    let message = match wrong {
        0 => "counters match".to_owned(),
        _ => format!("{wrong} counters are wrong; were tables edited by hand?"),
    };
    diagnostic("counters", wrong == 0, message)
}

/// Every unfinished job must be in the index that claims read.
fn indexes(db: &dyn Db) -> StoreResult<Diagnostic> {
    Ok(indexes_result(db.only(sql::CHECK_INDEXES, &[], |row| row.get(0))?, &[]))
}

/// The result of the check of the indexes in any engine: the number of inconsistent entries, and which they are, if
/// known.
pub(crate) fn indexes_result(wrong: i64, details: &[String]) -> Diagnostic {
    let message = match (wrong, details) {
        (0, _) => "job indexes are consistent".to_owned(),
        (_, []) => format!("inconsistent index entries: {wrong}"),
        (_, details) => format!("inconsistent index entries: {wrong} ({})", details.join(", ")),
    };
    diagnostic("indexes", wrong == 0, message)
}

/// Every event must be reachable from its job's last one.
fn histories(db: &dyn Db) -> StoreResult<Diagnostic> {
    Ok(histories_result(db.only(sql::CHECK_HISTORIES, &[], |row| row.get(0))?))
}

/// The result of the check of the event histories in any engine.
pub(crate) fn histories_result(broken: i64) -> Diagnostic {
    let message = match broken {
        0 => "event history is complete".to_owned(),
        _ => format!("{broken} event histories are incomplete"),
    };
    diagnostic("events", broken == 0, message)
}

/// The settings of every queue must be readable.
pub(crate) fn queue_settings(db: &dyn Db) -> StoreResult<Diagnostic> {
    Ok(queue_settings_result(&queues::queues(db)?))
}

fn queue_settings_result(queues: &[Queue]) -> Diagnostic {
    let details = queues.iter().filter_map(|Queue { name, settings, .. }| {
        let problem = &settings.unreadable.as_ref()?.problem;
        let effect = if settings.starts_jobs() { "" } else { ", and none of its jobs start" };
        Some(format!("the settings of {name} cannot be read{effect}: {problem}"))
    });
    let details: Vec<String> = details.collect();
    let message = match &*details {
        [] => "their settings can be read".to_owned(),
        details => format!("{}; save them again: punctual queues limit NAME, or resume NAME", details.join("; ")),
    };
    diagnostic("queues", details.is_empty(), message)
}

#[cfg(test)]
mod tests {
    use punctual_core::{QueueSettings, Timestamp};

    use super::*;

    #[test]
    fn queues_whose_settings_cannot_be_read_are_named() {
        let queue = |name: &str, text: &str, may_limit| Queue {
            name: name.to_owned(),
            settings: QueueSettings::from_stored(text, false, may_limit),
            revision: 1,
            updated_at: Timestamp::MIN,
            updated_by: "ada".to_owned(),
        };
        let found = queue_settings_result(&[queue("mail", "{}", true)]);
        assert_eq!((found.ok, &*found.message), (true, "their settings can be read"));
        let found = queue_settings_result(&[queue("mail", "{}", true), queue("a", "{", true), queue("b", "{", false)]);
        assert!(!found.ok && found.message.contains("settings of a cannot be read, and none of its jobs start: "));
        assert!(found.message.contains("settings of b cannot be read: ") && !found.message.contains("mail"));
    }

    #[test]
    fn a_result_gives_the_number_of_errors_and_the_details_if_known() {
        let found = |diagnostic: Diagnostic| (diagnostic.ok, diagnostic.message);
        assert_eq!(found(indexes_result(0, &[])), (true, "job indexes are consistent".to_owned()));
        assert_eq!(found(indexes_result(3, &[])), (false, "inconsistent index entries: 3".to_owned()));
        let details = ["labels without a job: 1".to_owned(), "jobs with a wrong lane: 2".to_owned()];
        let expected = "inconsistent index entries: 3 (labels without a job: 1, jobs with a wrong lane: 2)";
        assert_eq!(found(indexes_result(3, &details)), (false, expected.to_owned()));
    }

    #[test]
    fn missing_unknown_and_wrong_counters_are_counted() {
        let stored = BTreeMap::from([("a", 1), ("b", 2), ("c", 3)]);
        let actual = BTreeMap::from([("a", 1), ("b", 3), ("d", 4)]);
        assert_eq!(differences(&stored, &actual), 3);
        assert_eq!(differences(&actual, &actual), 0);
    }
}
