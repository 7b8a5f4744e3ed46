//! What is wrong with an input: each refusal names the field and the limit.

use std::time::Duration;

use crate::{Invalid, limits};

/// What the names of Punctual's own locks begin with.
const RESERVED_PREFIX: &str = "punctual.";

/// Refuses a name that is empty, too long, padded with spaces, or holds control characters.
pub fn word(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    if text.trim() != text {
        return Err(Invalid::new(field, "begins or ends with white space"));
    }
    if let Some(bad) = text.chars().find(|c| c.is_control()) {
        return Err(Invalid::new(field, format!("holds the control character U+{:04X}", u32::from(bad))));
    }
    length(field, text, max_chars)
}

/// Refuses the name of a lock that is not a word, or is reserved for Punctual's own locks.
pub fn lock_name(name: &str) -> Result<(), Invalid> {
    word("lock", name, limits::LABEL_MAX_CHARS)?;
    if name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX)) {
        let problem =
            format!("`{name}` is reserved: names that begin with `{RESERVED_PREFIX}` are for Punctual's own locks");
        return Err(Invalid::new("lock", problem));
    }
    Ok(())
}

pub(crate) fn label(field: &'static str, text: Option<&str>, max_chars: usize) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| word(field, text, max_chars))
}

/// Refuses a text that is too long or holds NUL, which not every engine can store.
pub fn text(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.contains('\0') {
        return Err(Invalid::new(field, "holds the control character U+0000"));
    }
    length(field, text, max_chars)
}

fn length(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length > max_chars { Err(Invalid::too_long(field, length, max_chars, "characters")) } else { Ok(()) }
}

/// Refuses a time that is not between `min` and `max`.
pub fn duration(field: &'static str, found: Duration, min: Duration, max: Duration) -> Result<(), Invalid> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    let problem = format!("{} ms is not between {} ms and {} ms", found.as_millis(), min.as_millis(), max.as_millis());
    Err(Invalid::new(field, problem))
}
