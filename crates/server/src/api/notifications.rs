//! Messages to people.

use punctual_core::{Json, NewNotification, Notification, check, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{call::Call, problem::Problem, route::Nothing};

/// Something to tell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewNotification")]
pub(crate) struct Message {
    /// To whom; to everybody if nothing is said.
    user: Option<String>,
    /// Anything.
    message: Json,
}

pub(crate) async fn tell(call: Call, _: Nothing, Message { user, message }: Message) -> Result<Notification, Problem> {
    Ok(call.punctual().tell(NewNotification { user_id: user, message, job: None }).await?)
}

/// Which messages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Told {
    /// What this user was told, and everybody; all messages if nothing is said.
    user: Option<String>,
    /// After the message with this number.
    #[serde(default)]
    after: u64,
    /// So many at most.
    limit: Option<usize>,
}

/// Messages, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Notifications")]
pub(crate) struct Messages {
    notifications: Vec<Notification>,
}

pub(crate) async fn list(call: Call, Told { user, after, limit }: Told) -> Result<Messages, Problem> {
    let max = limits::PAGE_MAX_NOTIFICATIONS;
    let limit = limit.unwrap_or(max);
    check::range("limit", limit, 1..=max)?;
    Ok(Messages { notifications: call.punctual().store().notifications(user, after, limit).await? })
}
