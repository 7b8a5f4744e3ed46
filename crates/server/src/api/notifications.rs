//! Notifications to users.

use punctual_core::{Json, NewNotification, Notification, check, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// A notification to send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewNotification")]
pub(crate) struct NewMessage {
    /// Recipient; all users by default.
    user: Option<String>,
    /// The message, any JSON value.
    message: Json,
}

pub(crate) async fn send(
    request: RequestContext,
    _: Nothing,
    NewMessage { user, message }: NewMessage,
) -> Result<Notification, Problem> {
    Ok(request.punctual().send_notification(NewNotification { user_id: user, message, job: None }).await?)
}

/// A filter for notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotificationQuery {
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
pub(crate) struct NotificationList {
    notifications: Vec<Notification>,
}

pub(crate) async fn list(
    request: RequestContext,
    NotificationQuery { user, after, limit }: NotificationQuery,
) -> Result<NotificationList, Problem> {
    let max = limits::PAGE_MAX_NOTIFICATIONS;
    let limit = limit.unwrap_or(max);
    check::range("limit", limit, 1..=max)?;
    Ok(NotificationList { notifications: request.punctual().store().notifications(user, after, limit).await? })
}
