//! What all engines' lists have in common.
//!
//! A list has one source, or several that are merged: one for each status, one for each lane of a queue. A source
//! yields candidates in the list's order; what the filter does not select is passed over. A page ends when it is
//! full, or when a source has looked at `LIST_MAX_SCANNED_ROWS` rows; then it says where to go on.

use punctual_core::{Page, StoreError};

/// Where a row stands in its list: its time in microseconds, then what tells it from others of that time. Both are
/// negative in lists that run backwards, so that all merge alike.
pub(crate) type Key = (i64, i128);

/// What one source found for a page.
#[derive(Debug)]
pub(crate) struct Found<K, T> {
    /// What fits, by key, in the list's order.
    pub(crate) fitting: Vec<(K, T)>,
    /// Where it stopped early, if it did.
    pub(crate) stopped: Option<K>,
}

/// The first of all sources together, and where the next page begins.
pub(crate) fn merge<T>(sources: Vec<Found<Key, T>>, limit: usize) -> (Vec<T>, Option<Key>) {
    // Nothing beyond the point where a source stopped may be shown yet: that source may have more before it.
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

/// Where a page begins: after everything for which this key was given.
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

/// The cursor is not one of this list.
pub(crate) fn bad_cursor(page: &Page) -> StoreError {
    let cursor: String = page.after.iter().flat_map(|text| text.chars()).take(64).collect();
    StoreError::BadCursor(cursor)
}
