//! Validation of inputs: each error names the field and the limit.

use std::{fmt, ops::RangeInclusive, time::Duration};

use crate::{Invalid, limits, time::Span};

/// Prefix of the names of Punctual's own locks.
const RESERVED_PREFIX: &str = "punctual.";

/// Rejects a name that is empty, too long, padded with spaces, or contains control characters.
pub fn name(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if text.trim() != text {
        return Err(Invalid::new(field, "begins or ends with white space"));
    }
    if let Some(bad) = text.chars().find(|c| c.is_control()) {
        return Err(Invalid::new(field, format!("contains the control character U+{:04X}", u32::from(bad))));
    }
    length(field, text, max_chars)
}

/// Rejects an invalid name of a lock, and names that are reserved for Punctual's own locks.
pub fn lock_name(lock: &str) -> Result<(), Invalid> {
    name("lock", lock, limits::LABEL_MAX_CHARS)?;
    if lock.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX)) {
        let problem =
            format!("`{lock}` is reserved: names that begin with `{RESERVED_PREFIX}` are for Punctual's own locks");
        return Err(Invalid::new("lock", problem));
    }
    Ok(())
}

pub(crate) fn label(field: &'static str, text: Option<&str>, max_chars: usize) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| name(field, text, max_chars))
}

/// Rejects a text that is too long or contains NUL, which not every engine can store.
pub fn text(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.contains('\0') {
        return Err(Invalid::new(field, "contains the control character U+0000"));
    }
    length(field, text, max_chars)
}

fn length(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length > max_chars { Err(Invalid::too_long(field, length, max_chars, "characters")) } else { Ok(()) }
}

/// Rejects a number outside of `range`.
pub fn range<T: PartialOrd + fmt::Display>(
    field: &'static str,
    found: T,
    range: RangeInclusive<T>,
) -> Result<(), Invalid> {
    if range.contains(&found) { Ok(()) } else { Err(Invalid::new(field, out_of_range(&found, &range))) }
}

/// The error text for a number outside of `range`.
pub fn out_of_range<T: fmt::Display>(found: &T, range: &RangeInclusive<T>) -> String {
    format!("must be between {} and {}, not {found}", range.start(), range.end())
}

/// Rejects a duration that is not between `min` and `max`.
pub fn duration(field: &'static str, found: Duration, min: Duration, max: Duration) -> Result<(), Invalid> {
    range(field, Span(found), Span(min)..=Span(max))
}
