//! What a client of the live stream asks for and receives: the filter, the cursor, and the messages.

use punctual_core::{JobEvent, JobId, Notification, Status, Timestamp, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of stream message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "StreamKind")]
pub(crate) enum Kind {
    /// Job events.
    Events,
    /// Notifications to the user.
    Notifications,
    /// Notifications to all users.
    Broadcasts,
}

/// A filter for the stream. Job events must match all given conditions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StreamParams {
    /// Kinds of messages to receive, all by default; may be repeated.
    pub(crate) kind: Vec<Kind>,
    /// Events that set any of these statuses; may be repeated.
    status: Vec<Status>,
    /// Events of jobs in this queue.
    queue: Option<String>,
    /// Events of jobs with this name.
    name: Option<String>,
    /// Events of jobs of this user, and notifications to the user.
    pub(crate) user: Option<String>,
    /// Events of jobs with this correlation id.
    correlation: Option<String>,
    /// Events of jobs with this tag.
    tag: Option<String>,
    /// Events of jobs of this schedule.
    schedule: Option<String>,
    /// Events of jobs of this workflow.
    workflow: Option<WorkflowId>,
    /// Events of this job.
    job: Option<JobId>,
    /// Cursor of the last message received: messages after it are sent first.
    pub(crate) cursor: Option<String>,
}

impl StreamParams {
    pub(crate) fn wants(&self, kind: Kind) -> bool {
        self.kind.is_empty() || self.kind.contains(&kind)
    }

    /// Whether a job event matches the filter.
    pub(crate) fn selects(&self, event: &JobEvent) -> bool {
        let same = |params: &Option<String>, found: Option<&String>| params.is_none() || params.as_ref() == found;
        (self.status.is_empty() || self.status.contains(&event.event.status))
            && same(&self.queue, Some(&event.queue))
            && same(&self.name, Some(&event.name))
            && same(&self.user, event.user_id.as_ref())
            && same(&self.correlation, event.correlation_id.as_ref())
            && same(&self.schedule, event.schedule.as_ref())
            && self.tag.as_ref().is_none_or(|tag| event.tags.contains(tag))
            && self.workflow.is_none_or(|workflow| event.workflow_id == Some(workflow))
            && self.job.is_none_or(|job| event.job == job)
    }

    /// Whether a notification matches the filter.
    pub(crate) fn selects_notification(&self, notification: &Notification) -> bool {
        self.wants(if notification.user_id.is_some() { Kind::Notifications } else { Kind::Broadcasts })
    }
}

/// A message of the stream. Its cursor resumes the stream after the message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schemars(rename = "StreamMessage")]
pub(crate) enum Message<'a> {
    /// The stream is open.
    Open { cursor: &'a str },
    /// Job events, in order of time.
    Events { cursor: &'a str, events: Vec<&'a JobEvent> },
    /// A notification to the user.
    Notification {
        cursor: &'a str,
        #[serde(flatten)]
        notification: &'a Notification,
    },
    /// A notification to all users.
    Broadcast {
        cursor: &'a str,
        #[serde(flatten)]
        notification: &'a Notification,
    },
    /// Events were not sent: the client was too slow, was disconnected for too long, or there were too many events at
    /// once.
    Missed {
        cursor: &'a str,
        /// Number of missed events, of any jobs; null if unknown.
        events: Option<u64>,
        /// Approximate time since when events are missing.
        since: Timestamp,
    },
    /// No messages matched for a while, but the cursor has moved.
    Heartbeat { cursor: &'a str },
}

/// A position in the stream: the id of the last notification, and the store's cursor of job events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) notification: Option<u64>,
    pub(crate) events: Option<String>,
}

impl Cursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (notification, events) = text.split_once('~')?;
        let notification = if notification.is_empty() { None } else { Some(notification.parse().ok()?) };
        Some(Self { notification, events: (!events.is_empty()).then(|| events.to_owned()) })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(notification) = self.notification {
            write!(f, "{notification}")?;
        }
        write!(f, "~{}", self.events.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text() {
        for (notification, events) in
            [(None, None), (Some(7), None), (None, Some("1.2")), (Some(0), Some("1.2.3-4_5-6"))]
        {
            let cursor = Cursor { notification, events: events.map(str::to_owned) };
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        for invalid in ["", "7", "x~", "-1~"] {
            assert_eq!(Cursor::parse(invalid), None, "{invalid}");
        }
    }
}
