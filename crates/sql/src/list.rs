//! Code shared by the job lists of all engines.
//!
//! A list has one source, or several that are merged: one per status, or one per lane of a queue. A source yields
//! candidates in the list's order; candidates that the filter does not select are skipped. A page ends when it is full
//! or when a source has scanned `LIST_MAX_SCANNED_ROWS` rows; it then carries a cursor for the next page.

use punctual_core::{JobId, Page, StoreError, limits::LIST_MAX_SCANNED_ROWS};

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

/// A scan of one source for a page: it ends when the page is full, or when it has read the maximum number of rows.
#[derive(Debug)]
pub(crate) struct SourceScan<K, T> {
    pub(crate) found: Found<K, T>,
    scanned: usize,
    limit: usize,
}

impl<K: Copy, T> SourceScan<K, T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { found: Found { fitting: Vec::new(), stopped: None }, scanned: 0, limit }
    }

    /// Adds the next row, with its item if it is selected. Returns whether the scan continues.
    pub(crate) fn add(&mut self, key: K, item: Option<T>) -> bool {
        self.scanned += 1;
        self.found.fitting.extend(item.map(|item| (key, item)));
        let goes_on = self.found.fitting.len() != self.limit && self.rows_left() > 0;
        if !goes_on {
            self.found.stopped = Some(key);
        }
        goes_on
    }

    /// How many more rows the scan may read.
    pub(crate) const fn rows_left(&self) -> usize {
        LIST_MAX_SCANNED_ROWS - self.scanned
    }
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

/// The id after which a page of a list by id begins, parsed from its cursor.
pub(crate) fn begin_id(page: &Page) -> Result<Option<JobId>, StoreError> {
    page.after.as_deref().map(str::parse::<JobId>).transpose().map_err(|_| bad_cursor(page))
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
fn bad_cursor(page: &Page) -> StoreError {
    let cursor: String = page.after.iter().flat_map(|text| text.chars()).take(64).collect();
    StoreError::BadCursor(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_ends_when_the_page_is_full() {
        let mut scan = SourceScan::new(2);
        assert!(scan.add(1, Some('a')) && scan.add(2, None) && !scan.add(3, Some('b')));
        assert_eq!((scan.found.fitting, scan.found.stopped), (vec![(1, 'a'), (3, 'b')], Some(3)));
    }

    #[test]
    fn a_scan_ends_at_the_maximum_number_of_rows() {
        let mut scan = SourceScan::<usize, ()>::new(1);
        assert!((1..LIST_MAX_SCANNED_ROWS).all(|row| scan.add(row, None)));
        assert!(!scan.add(LIST_MAX_SCANNED_ROWS, None));
        assert_eq!((scan.rows_left(), scan.found.stopped), (0, Some(LIST_MAX_SCANNED_ROWS)));
    }

    #[test]
    fn a_page_has_no_rows_beyond_the_point_where_a_source_stopped() {
        let source = |keys: &[i64], stopped: Option<i64>| Found {
            fitting: keys.iter().map(|key| ((*key, 0), *key)).collect(),
            stopped: stopped.map(|key| (key, 0)),
        };
        assert_eq!(merge(vec![source(&[1, 4], Some(4)), source(&[2, 5], None)], 9), (vec![1, 2, 4], Some((4, 0))));
        assert_eq!(merge(vec![source(&[1, 4], Some(4)), source(&[2, 5], None)], 2), (vec![1, 2], Some((2, 0))));
        assert_eq!(merge(vec![source(&[1], None), source(&[2], None)], 9), (vec![1, 2], None));
    }
}
