//! Numbers that many change at once are rows that are added; from time to time those of one thing are made one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows are added up after so many operations of a process, or after so many looks whether to.
const OPERATIONS: usize = 500;
const LOOKS: usize = 60;

/// Adds up some rows of each kind.
pub(crate) const ADD_UP: [&str; 3] = [
    "declare @some table (queue nvarchar(256) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2,
    status varchar(16) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_counts with (readcommittedlock, readpast) output deleted.queue, deleted.name, deleted.status, deleted.n into @some;
insert into punctual_counts (queue, name, status, n)
select queue, name, status, sum(n) from @some group by queue, name, status having sum(n) <> 0",
    "declare @some table (user_id nvarchar(512) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_pending with (readcommittedlock, readpast) output deleted.user_id, deleted.name, deleted.n into @some;
insert into punctual_pending (user_id, name, n)
select user_id, name, sum(n) from @some group by user_id, name having sum(n) <> 0",
    "declare @some table (hour bigint, name nvarchar(256) collate Latin1_General_BIN2, queue nvarchar(256) collate Latin1_General_BIN2,
    measure varchar(16) collate Latin1_General_BIN2, bucket int, n bigint);
delete top (20000) from punctual_tallies with (readcommittedlock, readpast)
output deleted.hour, deleted.name, deleted.queue, deleted.measure, deleted.bucket, deleted.n into @some;
insert into punctual_tallies (hour, name, queue, measure, bucket, n)
select hour, name, queue, measure, bucket, sum(n) from @some group by hour, name, queue, measure, bucket having sum(n) <> 0",
];

/// Counts what was done since rows were added up.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    operations: AtomicUsize,
    looks: AtomicUsize,
}

impl Sums {
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
        let sums = Sums::default();
        assert!(!sums.are_due());
        (0..OPERATIONS).for_each(|_| sums.note());
        assert!(sums.are_due());
        assert_eq!((0..LOOKS).filter(|_| sums.are_due()).count(), 1);
    }
}
