//! What there may be only one job of.

use std::time::Duration;

use punctual_core::{Invalid, Spec, Status, unique};

/// A unique key with all its options, for [`Draft::unique`](crate::Draft::unique).
///
/// ```
/// use punctual_client::{Draft, Unique};
/// use std::time::Duration;
/// // One confirmation for each order, whatever else the payload says.
/// Draft::new("confirm", &serde_json::json!({"order": 7, "at": 1})).unique(Unique::parts(["/order"]));
/// // At most one reminder an hour for each user.
/// Draft::new("remind", &()).unique(Unique::key("ada").period(Duration::from_secs(3_600)));
/// // Reindex once nothing has changed for a while, with what was said last.
/// Draft::new("reindex", &"v2")
///     .delay(Duration::from_secs(10))
///     .unique(Unique::key("document-1").until_started().replace_payload().debounce());
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Unique {
    source: Source,
    wish: punctual_core::Unique,
}

#[derive(Debug, Clone)]
enum Source {
    Key(String),
    Payload(Vec<String>),
}

impl Unique {
    /// By a key of your own.
    pub fn key(key: impl Into<String>) -> Self {
        Self { source: Source::Key(key.into()), wish: punctual_core::Unique::default() }
    }

    /// By the whole payload.
    pub fn payload() -> Self {
        Self { source: Source::Payload(Vec::new()), wish: punctual_core::Unique::default() }
    }

    /// By parts of the payload, each a JSON pointer such as `/order` or `/user/id`.
    pub fn parts<P: Into<String>>(parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { source: Source::Payload(parts), wish: punctual_core::Unique::default() }
    }

    /// Among jobs of any name, not only of the same.
    pub const fn any_name(mut self) -> Self {
        self.wish.any_name = true;
        self
    }

    /// Among jobs of the same queue only.
    pub const fn per_queue(mut self) -> Self {
        self.wish.per_queue = true;
        self
    }

    /// Only for so long after the first was enqueued; for as long as it is kept by default.
    pub const fn period(mut self, period: Duration) -> Self {
        self.wish.period = Some(period);
        self
    }

    /// Only while the other job is in one of these statuses; in any but cancelled and deleted by default.
    pub fn states(mut self, states: impl IntoIterator<Item = Status>) -> Self {
        self.wish.states = states.into_iter().collect();
        self
    }

    /// Only until the other job has come to an end.
    pub fn until_finished(self) -> Self {
        self.states(Status::ALL.into_iter().filter(|status| status.is_active()))
    }

    /// Only until the other job is started for the first time.
    pub fn until_started(self) -> Self {
        self.states([Status::Waiting, Status::Scheduled, Status::Queued])
    }

    /// A conflict gives the other job this one's payload, if it has not started.
    pub const fn replace_payload(mut self) -> Self {
        self.wish.replace_payload = true;
        self
    }

    /// A conflict pushes the other job's time back to this one's, if it is still scheduled. With a
    /// [`period`](Self::period) it is pushed back for no longer than that: then there is a new one.
    pub const fn debounce(mut self) -> Self {
        self.wish.debounce = true;
        self
    }

    /// Puts it into a job, whose payload is known by now.
    pub(crate) fn apply(self, spec: &mut Spec) -> Result<(), Invalid> {
        spec.unique_key = Some(match self.source {
            Source::Key(key) => key,
            Source::Payload(parts) => unique::key_of(&spec.payload, &parts)?,
        });
        spec.options.unique = (self.wish != punctual_core::Unique::default()).then_some(self.wish);
        Ok(())
    }
}
