//! Counters that many operations change at once are stored as inserted rows, which are periodically merged into one row
//! per counter.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows are merged after this number of operations of a process, or after this number of checks.
const OPERATIONS: usize = 500;
const CHECKS: usize = 60;

/// Counts the operations and checks since the last merge.
#[derive(Debug, Default)]
pub(crate) struct Rollups {
    operations: AtomicUsize,
    checks: AtomicUsize,
}

impl Rollups {
    /// Records an operation, which may have inserted rows.
    pub(crate) fn note(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether to merge rows now.
    pub(crate) fn are_due(&self) -> bool {
        let checks = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
        let are_due = checks >= CHECKS || self.operations.load(Ordering::Relaxed) >= OPERATIONS;
        if are_due {
            self.operations.store(0, Ordering::Relaxed);
            self.checks.store(0, Ordering::Relaxed);
        }
        are_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_merged_after_many_operations_or_many_checks() {
        let rollups = Rollups::default();
        assert!(!rollups.are_due());
        (0..OPERATIONS).for_each(|_| rollups.note());
        assert!(rollups.are_due());
        assert_eq!((0..CHECKS).filter(|_| rollups.are_due()).count(), 1);
    }
}
