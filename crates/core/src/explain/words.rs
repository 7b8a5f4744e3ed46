//! Parts of sentences.

/// Maximum number of jobs that a sentence names.
pub(super) const NAMED_MAX_COUNT: usize = 5;

pub(super) fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `No live worker (there are 3)`.
pub(super) fn none_of(count: usize, what: &str) -> String {
    if count == 1 { format!("No {what} (there is one)") } else { format!("No {what} (there are {count})") }
}

/// The first items, and the number of the others.
pub(super) fn some(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED_MAX_COUNT);
    let mut named = items.take(NAMED_MAX_COUNT).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    named
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
