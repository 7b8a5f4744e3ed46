//! Numbers that many change at once are rows that are added; from time to time those of one thing are made one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// After so many operations of a process, rows are added up.
const OPERATIONS: usize = 500;

/// Adds up some rows of each kind.
pub(crate) const ADD_UP: [&str; 3] = [
    "declare @some table (queue nvarchar(256) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2,
    status varchar(16) collate Latin1_General_BIN2, n bigint)
delete top (20000) from punctual_counts with (readpast) output deleted.queue, deleted.name, deleted.status, deleted.n into @some
insert into punctual_counts (queue, name, status, n)
select queue, name, status, sum(n) from @some group by queue, name, status having sum(n) <> 0",
    "declare @some table (user_id nvarchar(512) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2, n bigint)
delete top (20000) from punctual_pending with (readpast) output deleted.user_id, deleted.name, deleted.n into @some
insert into punctual_pending (user_id, name, n)
select user_id, name, sum(n) from @some group by user_id, name having sum(n) <> 0",
    "declare @some table (hour bigint, name nvarchar(256) collate Latin1_General_BIN2, queue nvarchar(256) collate Latin1_General_BIN2,
    measure varchar(16) collate Latin1_General_BIN2, bucket int, n bigint)
delete top (20000) from punctual_tallies with (readpast)
output deleted.hour, deleted.name, deleted.queue, deleted.measure, deleted.bucket, deleted.n into @some
insert into punctual_tallies (hour, name, queue, measure, bucket, n)
select hour, name, queue, measure, bucket, sum(n) from @some group by hour, name, queue, measure, bucket having sum(n) <> 0",
];

/// Counts operations.
#[derive(Debug, Default)]
pub(crate) struct Sums(AtomicUsize);

impl Sums {
    /// Counts one more; says whether it is time to add up.
    pub(crate) fn are_due(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) % OPERATIONS == OPERATIONS - 1
    }
}
