//! Reads the stored settings of queues, and logs which cannot be read.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use punctual_core::{QueueSettings, StoreError, StoreResult};

/// Queues and their settings that cannot be read, as far as this process has logged them. They are read with every
/// claim.
static LOGGED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Parses the settings of a queue. Whether it is `paused`, and whether they `may_limit` it, is used if they cannot be
/// read.
pub(super) fn parse(name: &str, text: &str, (paused, may_limit): (bool, bool)) -> QueueSettings {
    let settings = QueueSettings::from_stored(text, paused, may_limit);
    if let Some(unreadable) = settings.unreadable.as_ref().filter(|_| is_new(name, text)) {
        let (problem, starts_jobs) = (&unreadable.problem, settings.starts_jobs());
        tracing::warn!(
            queue = name,
            problem,
            settings = text,
            starts_jobs,
            "the settings of a queue cannot be read; save them again"
        );
    }
    settings
}

/// Whether these settings of a queue are to be logged.
fn is_new(name: &str, text: &str) -> bool {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner).insert((name.to_owned(), text.to_owned()))
}

/// The text of settings to store. If they become unreadable afterwards, this is logged again.
pub(super) fn text(name: &str, settings: &QueueSettings) -> StoreResult<String> {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner).retain(|(logged, _)| logged != name);
    settings.to_stored().map_err(|error| StoreError::Other(format!("cannot write a document: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn settings_that_cannot_be_read_are_logged_once_per_change() {
        let queue = "logged once";
        assert!(is_new(queue, "{") && !is_new(queue, "{") && is_new(queue, "["));
        assert!(is_new("another one", "{"));
        assert_eq!(text(queue, &QueueSettings::from_stored("{", false, true)).unwrap(), "{");
        assert!(is_new(queue, "{") && !is_new("another one", "{"));
    }
}
