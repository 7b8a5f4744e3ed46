//! Messages to users.

use std::time::Duration;

use crate::{NewNotification, Notification, store::StoreResult};

port! {
    /// Messages to users.
    pub trait NotificationStore {
        /// Stores messages to users. Their numbers increase in the order in which the messages become visible. Sends a
        /// hint, as a change of a job does.
        async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>>;

        /// Messages after the one with this number, oldest first, at most `limit`: those to one user and those to all
        /// users, or all messages.
        async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>>;

        /// The number of the last message, including removed ones; 0 if there was none.
        async fn last_notification(&self) -> StoreResult<u64>;

        /// Removes messages that are older than `after`, at most `limit`. Their numbers are not reused.
        async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize>;
    }
}
