//! Code shared by the job lists of all engines.
//!
//! A list has one source, or several that are merged: one per status, or one per lane of a queue. A source yields
//! candidates in the list's order; candidates that the filter does not select are skipped. A page ends when it is full
//! or when a source has scanned `LIST_MAX_SCANNED_ROWS` rows; it then carries a cursor for the next page.

use punctual_core::{Page, StoreError};

/// The sort key of a row in its list: its time in microseconds, then a tie-breaker among rows of the same time. Both
/// are negated in descending lists, so that all lists merge in ascending order.
pub(crate) type Key = (i64, i128);

/// The rows that one source found for a page.
#[derive(Debug)]
pub(crate) struct Found<K, T> {
    /// The selected rows with their keys, in the list's order.
    pub(crate) fitting: Vec<(K, T)>,
    /// The key at which the source stopped early, if it did.
    pub(crate) stopped: Option<K>,
}

/// Merges the sources into one page; returns its items and the key after which the next page begins.
pub(crate) fn merge<T>(sources: Vec<Found<Key, T>>, limit: usize) -> (Vec<T>, Option<Key>) {
    // Rows beyond the point where a source stopped cannot be returned yet: that source may have more rows before them.
    let horizon = sources.iter().filter_map(|found| found.stopped).min();
    let mut all: Vec<(Key, T)> = sources.into_iter().flat_map(|found| found.fitting).collect();
    all.sort_unstable_by_key(|(key, _)| *key);
    all.retain(|(key, _)| horizon.is_none_or(|horizon| *key <= horizon));
    let cut = all.len() > limit;
    all.truncate(limit);
    let last = all.last().map(|(key, _)| *key);
    let next = if cut { last } else { horizon };
    (all.into_iter().map(|(_, item)| item).collect(), next)
}

/// The key after which a page begins, parsed from its cursor.
pub(crate) fn begin(page: &Page) -> Result<Option<Key>, StoreError> {
    let parse = |text: &str| {
        let (time, rest) = text.split_once('.')?;
        Some((time.parse().ok()?, rest.parse().ok()?))
    };
    page.after.as_deref().map(|text| parse(text).ok_or_else(|| bad_cursor(page))).transpose()
}

/// The cursor that continues after a key.
pub(crate) fn cursor((time, rest): Key) -> String {
    format!("{time}.{rest}")
}

/// The error for a cursor that does not belong to this list.
pub(crate) fn bad_cursor(page: &Page) -> StoreError {
    let cursor: String = page.after.iter().flat_map(|text| text.chars()).take(64).collect();
    StoreError::BadCursor(cursor)
}
