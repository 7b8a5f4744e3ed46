//! Messages to users.

use std::time::Duration;

use crate::{NewNotification, Notification, store::StoreResult};

port! {
    /// Messages to users.
    pub trait NotificationStore {
        /// Stores messages to users. Their numbers come in the order in which they can be seen. Hints at it, as at a
        /// job's change.
        async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>>;

        /// Messages after the one with that number, oldest first, at most `limit`: those to one user and those to
        /// everybody, or all.
        async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>>;

        /// The number of the last message, or of the last that was there; 0 if there was none.
        async fn last_notification(&self) -> StoreResult<u64>;

        /// Removes messages that are older than `after`, at most `limit`. Their numbers are not used again.
        async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize>;
    }
}
