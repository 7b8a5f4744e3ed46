//! Unique keys.

use std::time::Duration;

use punctual_core::{Invalid, Spec, Status, unique};

/// A unique key with all its options, for [`Draft::unique`](crate::Draft::unique).
///
/// ```
/// use punctual_client::{Draft, Unique};
/// use std::time::Duration;
/// // One confirmation for each order, whatever else the payload contains.
/// Draft::new("confirm", &serde_json::json!({"order": 7, "at": 1})).unique(Unique::parts(["/order"]));
/// // At most one reminder an hour for each user.
/// Draft::new("remind", &()).unique(Unique::key("ada").period(Duration::from_secs(3_600)));
/// // Reindex once nothing has changed for a while, with the latest payload.
/// Draft::new("reindex", &"v2")
///     .delay(Duration::from_secs(10))
///     .unique(Unique::key("document-1").until_started().replace_payload().debounce());
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Unique {
    source: Source,
    unique: punctual_core::Unique,
}

#[derive(Debug, Clone)]
enum Source {
    Key(String),
    Payload(Vec<String>),
}

impl Unique {
    /// A key of your own.
    pub fn key(key: impl Into<String>) -> Self {
        Self { source: Source::Key(key.into()), unique: punctual_core::Unique::default() }
    }

    /// A key computed from the whole payload.
    pub fn payload() -> Self {
        Self { source: Source::Payload(Vec::new()), unique: punctual_core::Unique::default() }
    }

    /// A key computed from parts of the payload, each a JSON pointer such as `/order` or `/user/id`.
    pub fn parts<P: Into<String>>(parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { source: Source::Payload(parts), unique: punctual_core::Unique::default() }
    }

    /// Jobs of other names conflict, too.
    pub const fn any_name(mut self) -> Self {
        self.unique.any_name = true;
        self
    }

    /// Jobs of other queues do not conflict.
    pub const fn per_queue(mut self) -> Self {
        self.unique.per_queue = true;
        self
    }

    /// The key is held for this period from the first enqueue; by default for as long as its job is stored.
    pub const fn period(mut self, period: Duration) -> Self {
        self.unique.period = Some(period);
        self
    }

    /// The existing job conflicts only in these statuses; by default in all except cancelled and deleted.
    pub fn states(mut self, states: impl IntoIterator<Item = Status>) -> Self {
        self.unique.states = states.into_iter().collect();
        self
    }

    /// The existing job conflicts only until it has finished.
    pub fn until_finished(self) -> Self {
        self.states(Status::ALL.into_iter().filter(|status| status.is_active()))
    }

    /// The existing job conflicts only until its first start.
    pub fn until_started(self) -> Self {
        self.states([Status::Waiting, Status::Scheduled, Status::Queued])
    }

    /// On a conflict, the existing job receives the payload of the new one, if it has not started.
    pub const fn replace_payload(mut self) -> Self {
        self.unique.replace_payload = true;
        self
    }

    /// On a conflict, the existing job is postponed to the time of the new one, if it is still scheduled. With a
    /// [`period`](Self::period), it is postponed no further than the end of the period; then a new job is enqueued.
    pub const fn debounce(mut self) -> Self {
        self.unique.debounce = true;
        self
    }

    /// Sets the unique key of a job whose payload is known.
    pub(crate) fn apply(self, spec: &mut Spec) -> Result<(), Invalid> {
        spec.unique_key = Some(match self.source {
            Source::Key(key) => key,
            Source::Payload(parts) => unique::key_of(&spec.payload, &parts)?,
        });
        spec.options.unique = (self.unique != punctual_core::Unique::default()).then_some(self.unique);
        Ok(())
    }
}
