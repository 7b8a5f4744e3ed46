//! Notifications to users.

use punctual_core::{Json, NewNotification, Notification, check, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{call::Call, problem::Problem, route::Nothing};

/// A notification to send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewNotification")]
pub(crate) struct Message {
    /// Recipient; all users by default.
    user: Option<String>,
    /// The message, any JSON value.
    message: Json,
}

pub(crate) async fn tell(call: Call, _: Nothing, Message { user, message }: Message) -> Result<Notification, Problem> {
    Ok(call.punctual().tell(NewNotification { user_id: user, message, job: None }).await?)
}

/// A filter for notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewNotice {
    /// Notifications to this user and to all users; by default, all notifications.
    user: Option<String>,
    /// Notifications after the one with this id.
    #[serde(default)]
    after: u64,
    /// Maximum number of rows.
    limit: Option<usize>,
}

/// Notifications, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Notifications")]
pub(crate) struct Messages {
    notifications: Vec<Notification>,
}

pub(crate) async fn list(call: Call, NewNotice { user, after, limit }: NewNotice) -> Result<Messages, Problem> {
    let max = limits::PAGE_MAX_NOTIFICATIONS;
    let limit = limit.unwrap_or(max);
    check::range("limit", limit, 1..=max)?;
    Ok(Messages { notifications: call.punctual().store().notifications(user, after, limit).await? })
}
