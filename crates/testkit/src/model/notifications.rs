//! Messages to users.

use punctual_core::{NewNotification, Notification, Timestamp};

use super::state::State;

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
