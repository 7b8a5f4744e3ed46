//! The live stream.

use axum::{extract::ws::WebSocketUpgrade, response::Response};
use punctual_client::Subscription;
use punctual_core::{JobEvent, JobId, Notification, Status, StoreError, Timestamp, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    event_feed::Listener,
    problem::{Code, Problem},
    request::RequestContext,
    subscriber::{self, Subscriber},
};

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
    kind: Vec<Kind>,
    /// Events that set any of these statuses; may be repeated.
    status: Vec<Status>,
    /// Events of jobs in this queue.
    queue: Option<String>,
    /// Events of jobs with this name.
    name: Option<String>,
    /// Events of jobs of this user, and notifications to the user.
    user: Option<String>,
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
    cursor: Option<String>,
}

impl StreamParams {
    fn wants(&self, kind: Kind) -> bool {
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
    fn parse(text: &str) -> Option<Self> {
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

fn invalid_cursor() -> Problem {
    Problem::invalid("cursor", "invalid cursor; expected the cursor of the last message, or none to start now")
}

pub(crate) async fn open(
    request: RequestContext,
    params: StreamParams,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    if params.user.is_none() && params.kind.contains(&Kind::Notifications) {
        return Err(Problem::invalid("user", "is required for notifications"));
    }
    let Ok(slot) = std::sync::Arc::clone(&request.app.sockets).try_acquire_owned() else {
        return Err(Problem::new(Code::Unavailable, "too many stream subscribers; try again later"));
    };
    let from = params.cursor.as_deref().map(|text| Cursor::parse(text).ok_or_else(invalid_cursor)).transpose()?;
    let (after, since) = from.map(|from| (from.notification, from.events)).unwrap_or_default();
    let listener = listener(&request, &params, since.as_deref()).await?;
    let (notification, subscription) = subscription(&request, &params, after).await?.unzip();
    let cursor = Cursor { notification, events: listener.as_ref().map(|listener| listener.cursor.clone()) };
    let subscriber = Subscriber { params, sent: cursor.to_string(), cursor, listener, subscription };
    let alive = request.app.open_sockets.token();
    Ok(subscriber::bounded(upgrade).on_upgrade(move |socket| async move {
        subscriber::serve(request.app, request.caller, socket, subscriber).await;
        drop((slot, alive));
    }))
}

async fn listener(
    request: &RequestContext,
    params: &StreamParams,
    since: Option<&str>,
) -> Result<Option<Listener>, Problem> {
    if !params.wants(Kind::Events) {
        return Ok(None);
    }
    match request.app.event_feed.subscribe(since).await {
        Ok(listener) => Ok(Some(listener)),
        Err(StoreError::BadCursor(_)) => Err(invalid_cursor()),
        Err(error) => Err(error.into()),
    }
}

async fn subscription(
    request: &RequestContext,
    params: &StreamParams,
    after: Option<u64>,
) -> Result<Option<(u64, Subscription)>, Problem> {
    if !params.wants(Kind::Notifications) && !params.wants(Kind::Broadcasts) {
        return Ok(None);
    }
    let after = match after {
        Some(after) => after,
        None => request.punctual().store().last_notification().await?,
    };
    // No user has an empty name, so that only notifications to all users arrive.
    let user = params.user.clone().unwrap_or_default();
    Ok(Some((after, request.punctual().subscribe(user, Some(after)).await?)))
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
