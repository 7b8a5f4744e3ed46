//! Unfinished jobs by user and name.

use std::collections::BTreeMap;

use punctual_core::{Count, Pending};

/// Adds the unfinished jobs without a user: all unfinished jobs less those of users. Sorted by count, highest first; at
/// most `limit` entries.
pub(crate) fn with_userless(mut pending: Vec<Pending>, counts: Vec<Count>, limit: usize) -> Vec<Pending> {
    let mut userless = BTreeMap::<String, u64>::new();
    for count in counts.into_iter().filter(|count| count.status.is_active()) {
        *userless.entry(count.name).or_default() += count.count;
    }
    for users in &pending {
        if let Some(left) = userless.get_mut(&users.name) {
            *left = left.saturating_sub(users.count);
        }
    }
    let userless = userless.into_iter().filter(|(_, count)| *count > 0);
    pending.extend(userless.map(|(name, count)| Pending { user_id: None, name, count }));
    pending.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
    pending.truncate(limit);
    pending
}
