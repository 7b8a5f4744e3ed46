//! Messages to users.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{NewNotification, Notification, StoreResult, Timestamp, store::ports::NotificationStore};

use super::{state::State, store::ModelStore};

impl State {
    pub(super) fn notify(&mut self, now: Timestamp, messages: Vec<NewNotification>) -> Vec<Notification> {
        let first = self.last_notification + 1;
        let stored = |(new, id)| Notification::new(id, new, now);
        let stored: Vec<Notification> = messages.into_iter().zip(first..).map(stored).collect();
        self.last_notification += stored.len() as u64;
        self.notifications.extend(stored.iter().cloned());
        stored
    }

    pub(super) fn notifications(&self, user: Option<&str>, after: u64, limit: usize) -> Vec<Notification> {
        let is_for = |one: &&Notification| user.is_none_or(|user| one.is_for(user));
        self.notifications.iter().filter(|one| one.id > after).filter(is_for).take(limit).cloned().collect()
    }

    pub(super) fn drop_notifications(&mut self, before: Timestamp, limit: usize) -> usize {
        let count = self.notifications.len();
        let mut seen = 0;
        self.notifications.retain(|one| {
            seen += 1;
            seen > limit || one.created_at >= before
        });
        count - self.notifications.len()
    }
}

#[async_trait]
impl NotificationStore for ModelStore {
    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
        self.write(|state, now| state.notify(now, messages))
    }

    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
        Ok(self.state().notifications(user.as_deref(), after, limit))
    }

    async fn last_notification(&self) -> StoreResult<u64> {
        Ok(self.state().last_notification)
    }

    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.drop_notifications(now.before(after), limit))
    }
}
