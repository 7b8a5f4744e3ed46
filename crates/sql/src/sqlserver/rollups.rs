//! Numbers that many change at once are rows that are added; from time to time those of one thing are made one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows are added up after so many operations of a process, or after so many looks whether to.
const OPERATIONS: usize = 500;
const LOOKS: usize = 60;

/// Counts what was done since rows were added up.
#[derive(Debug, Default)]
pub(crate) struct Rollups {
    operations: AtomicUsize,
    looks: AtomicUsize,
}

impl Rollups {
    /// An operation may have added rows.
    pub(crate) fn note(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is time to add up.
    pub(crate) fn are_due(&self) -> bool {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let are_due = looks >= LOOKS || self.operations.load(Ordering::Relaxed) >= OPERATIONS;
        if are_due {
            self.operations.store(0, Ordering::Relaxed);
            self.looks.store(0, Ordering::Relaxed);
        }
        are_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_after_many_operations_or_many_looks() {
        let sums = Rollups::default();
        assert!(!sums.are_due());
        (0..OPERATIONS).for_each(|_| sums.note());
        assert!(sums.are_due());
        assert_eq!((0..LOOKS).filter(|_| sums.are_due()).count(), 1);
    }
}
