//! What a process remembers of its maintenance: when each task was last executed, and what it left.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::Timestamp;

/// The interval for a table in which VACUUM could remove nothing: a transaction is open, and each attempt reads the
/// whole table.
const VACUUM_IN_VAIN_EVERY: Duration = Duration::from_secs(60);
/// Fewer dead rows are not worth a VACUUM.
const FEW_ROWS: i64 = 2_000;

/// The name under which this process takes the lock, and when each task was last executed.
#[derive(Debug)]
pub(crate) struct Maintenance {
    owner: String,
    done: Mutex<LastRuns>,
}

#[derive(Debug)]
struct LastRuns {
    vacuum: Option<Instant>,
    refresh: Option<Instant>,
    /// By table: when it was last vacuumed, and how many dead rows remained, once the server's statistics show it.
    cleared: HashMap<&'static str, (Instant, Option<i64>)>,
    /// Events before this time no longer contain data of executions.
    pruned_until: Timestamp,
}

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            owner: format!("{:032x}", fastrand::u128(..)),
            done: Mutex::new(LastRuns {
                vacuum: None,
                refresh: None,
                cleared: HashMap::new(),
                pruned_until: Timestamp::MIN,
            }),
        }
    }

    /// The name under which this process takes the lock.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether the state that this process caches is to be refreshed; if so, the next refresh is due after `every`.
    pub(crate) fn is_refresh_due(&self, every: Duration) -> bool {
        self.is_due(|done| &mut done.refresh, every)
    }

    /// Whether tables are to be vacuumed; if so, the next time is due after `every`.
    pub(crate) fn is_vacuum_due(&self, every: Duration) -> bool {
        self.is_due(|done| &mut done.vacuum, every)
    }

    /// Events before this time no longer contain data of executions.
    pub(crate) fn pruned_until(&self) -> Timestamp {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).pruned_until
    }

    /// Records that the data of executions was removed from events up to this time.
    pub(crate) fn pruned(&self, until: Timestamp) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).pruned_until = until;
    }

    /// Whether a table with this number of dead rows is worth vacuuming.
    pub(crate) fn is_worth_clearing(&self, table: &'static str, gone: i64) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let last = done.cleared.get(table).copied();
        let (since, stayed) = last.map_or((Duration::MAX, None), |(at, stayed)| (at.elapsed(), stayed));
        gone > FEW_ROWS && (gone >= 2 * stayed.unwrap_or_default() || since >= VACUUM_IN_VAIN_EVERY)
    }

    /// The tables that were vacuumed since the number of remaining rows was last read.
    pub(crate) fn cleared_lately(&self) -> Vec<&'static str> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.iter().filter(|(_, (_, stayed))| stayed.is_none()).map(|(table, _)| *table).collect()
    }

    /// Records that a table was vacuumed.
    pub(crate) fn cleared(&self, table: &'static str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.insert(table, (Instant::now(), None));
    }

    /// Records how many dead rows a vacuum has left in a table.
    pub(crate) fn stayed(&self, table: &'static str, rows: i64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.entry(table).and_modify(|(_, stayed)| *stayed = Some(rows));
    }

    fn is_due(&self, when: impl Fn(&mut LastRuns) -> &mut Option<Instant>, every: Duration) -> bool {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let last = when(&mut done);
        let due = last.is_none_or(|last| last.elapsed() >= every);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}
