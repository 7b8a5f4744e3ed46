//! The live stream.

use axum::{extract::ws::WebSocketUpgrade, response::Response};
use punctual_client::Subscription;
use punctual_core::{JobEvent, JobId, Notification, Status, StoreError, Timestamp, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    event_feed::Listener,
    problem::{Code, Problem},
    subscriber::{self, Subscriber},
};

/// What there is to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "StreamKind")]
pub(crate) enum Kind {
    /// What happens to jobs.
    Events,
    /// What the user is told.
    Notifications,
    /// What everybody is told.
    Broadcasts,
}

/// What to listen to. Of jobs, every part that is given must fit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Wish {
    /// Any of these, may be given several times; everything if nothing is said.
    kind: Vec<Kind>,
    /// Events by which jobs got any of these statuses; may be given several times.
    status: Vec<Status>,
    /// Exactly this queue.
    queue: Option<String>,
    /// Exactly this name.
    name: Option<String>,
    /// Exactly this user: jobs on their behalf, and what they are told.
    user: Option<String>,
    /// Exactly this correlation id.
    correlation: Option<String>,
    /// Among the job's tags.
    tag: Option<String>,
    /// Occurrences of this schedule.
    schedule: Option<String>,
    /// Jobs of this workflow.
    workflow: Option<WorkflowId>,
    /// This job.
    job: Option<JobId>,
    /// The `cursor` of the last message that was received: what came since then is told first.
    cursor: Option<String>,
}

impl Wish {
    fn wants(&self, kind: Kind) -> bool {
        self.kind.is_empty() || self.kind.contains(&kind)
    }

    /// Whether it wants to know of what happened to a job.
    pub(crate) fn selects(&self, told: &JobEvent) -> bool {
        let same = |wish: &Option<String>, found: Option<&String>| wish.is_none() || wish.as_ref() == found;
        (self.status.is_empty() || self.status.contains(&told.event.status))
            && same(&self.queue, Some(&told.queue))
            && same(&self.name, Some(&told.name))
            && same(&self.user, told.user_id.as_ref())
            && same(&self.correlation, told.correlation_id.as_ref())
            && same(&self.schedule, told.schedule.as_ref())
            && self.tag.as_ref().is_none_or(|tag| told.tags.contains(tag))
            && self.workflow.is_none_or(|workflow| told.workflow_id == Some(workflow))
            && self.job.is_none_or(|job| told.job == job)
    }

    /// Whether it wants to know of a message.
    pub(crate) fn hears(&self, told: &Notification) -> bool {
        self.wants(if told.user_id.is_some() { Kind::Notifications } else { Kind::Broadcasts })
    }
}

/// A message of the stream. Each carries the cursor by which whoever has received it can go on later.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schemars(rename = "StreamMessage")]
pub(crate) enum Message<'a> {
    /// The stream has begun.
    Open { cursor: &'a str },
    /// What happened to jobs, in the order of time.
    Events { cursor: &'a str, events: Vec<&'a JobEvent> },
    /// The user was told something.
    Notification {
        cursor: &'a str,
        #[serde(flatten)]
        told: &'a Notification,
    },
    /// Everybody was told something.
    Broadcast {
        cursor: &'a str,
        #[serde(flatten)]
        told: &'a Notification,
    },
    /// Events are not told: the reader was too slow, was away for too long, or there were too many at once.
    Missed {
        cursor: &'a str,
        /// So many, of any jobs; not known if it was away.
        events: Option<u64>,
        /// Since about then.
        since: Timestamp,
    },
    /// Nothing was to be told for a while, but the cursor has moved.
    Heartbeat { cursor: &'a str },
}

/// Where a reader has come to: the number of the last notification, and the store's cursor of jobs' events.
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

fn bad_cursor() -> Problem {
    Problem::invalid("cursor", "invalid cursor; expected the cursor of the last message, or none to start now")
}

pub(crate) async fn open(call: Call, wish: Wish, upgrade: WebSocketUpgrade) -> Result<Response, Problem> {
    if wish.user.is_none() && wish.kind.contains(&Kind::Notifications) {
        return Err(Problem::invalid("user", "is required for notifications"));
    }
    let Ok(slot) = std::sync::Arc::clone(&call.app.sockets).try_acquire_owned() else {
        return Err(Problem::new(Code::Unavailable, "there are too many who listen; try again later"));
    };
    let from = wish.cursor.as_deref().map(|text| Cursor::parse(text).ok_or_else(bad_cursor)).transpose()?;
    let (after, since) = from.map(|from| (from.notification, from.events)).unwrap_or_default();
    let listener = listener(&call, &wish, since.as_deref()).await?;
    let (notification, subscription) = subscription(&call, &wish, after).await?.unzip();
    let cursor = Cursor { notification, events: listener.as_ref().map(|listener| listener.cursor.clone()) };
    let ears = Subscriber { wish, sent: cursor.to_string(), cursor, listener, subscription };
    let alive = call.app.open_sockets.token();
    Ok(subscriber::bounded(upgrade).on_upgrade(move |socket| async move {
        subscriber::serve(call.app, call.caller, socket, ears).await;
        drop((slot, alive));
    }))
}

async fn listener(call: &Call, wish: &Wish, since: Option<&str>) -> Result<Option<Listener>, Problem> {
    if !wish.wants(Kind::Events) {
        return Ok(None);
    }
    match call.app.follower.join(since).await {
        Ok(listener) => Ok(Some(listener)),
        Err(StoreError::BadCursor(_)) => Err(bad_cursor()),
        Err(error) => Err(error.into()),
    }
}

async fn subscription(call: &Call, wish: &Wish, after: Option<u64>) -> Result<Option<(u64, Subscription)>, Problem> {
    if !wish.wants(Kind::Notifications) && !wish.wants(Kind::Broadcasts) {
        return Ok(None);
    }
    let after = match after {
        Some(after) => after,
        None => call.punctual().store().last_notification().await?,
    };
    // Nobody has an empty name, so that only what everybody is told comes.
    let user = wish.user.clone().unwrap_or_default();
    Ok(Some((after, call.punctual().subscribe(user, Some(after)).await?)))
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
        for bad in ["", "7", "x~", "-1~"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }
}
