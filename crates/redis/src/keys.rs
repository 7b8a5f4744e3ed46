//! The keys in Redis. All keys of a queue have the same hash tag, so that they are on the same node of a cluster.

use std::borrow::Cow;

use punctual_core::{JobId, WorkerId, dispatch::Lane};

/// The prefix of every key. It identifies the primary store whose jobs the keys are about.
#[derive(Debug, Clone)]
pub(crate) struct Namespace(String);

impl Namespace {
    /// The namespace of the primary store with this id.
    pub(crate) fn of(store_id: &str) -> Self {
        Self(format!("punctual:{store_id}"))
    }

    /// A pattern for `SCAN` that matches every key.
    pub(crate) fn pattern(&self) -> String {
        let escaped: String = self
            .0
            .chars()
            .flat_map(|c| ['\\'].into_iter().filter(move |_| "*?[]\\^-".contains(c)).chain([c]))
            .collect();
        format!("{escaped}:*")
    }

    /// The run of the primary store's server that owns the jobs; expires. With the name of a queue: the key on that
    /// queue's node.
    pub(crate) fn owner(&self, queue: Option<&str>) -> String {
        match queue {
            None => format!("{}:owner", self.0),
            Some(queue) => format!("{}owner", self.queue(queue).prefix),
        }
    }

    /// The channel that wakes idle claims. A message is the name of a queue.
    pub(crate) fn channel(&self) -> String {
        format!("{}:work", self.0)
    }

    /// The heartbeat of a worker; expires.
    pub(crate) fn worker(&self, worker: WorkerId) -> String {
        format!("{}:worker:{worker}", self.0)
    }

    /// A lock: its expiry time and its owner.
    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}:lock:{name}", self.0)
    }

    /// The lock of a job that starts before the primary store knows.
    pub(crate) fn job_lock(&self, job: JobId) -> String {
        format!("{}:job:{job}", self.0)
    }

    /// A hash: the number of repairs by kind.
    pub(crate) fn repairs(&self) -> String {
        format!("{}:repairs", self.0)
    }

    pub(crate) fn queue(&self, queue: &str) -> QueueKeys {
        QueueKeys { prefix: format!("{}:{{{}}}:", self.0, tag(queue)) }
    }
}

/// The hash tag of a queue. A brace in the name would end the tag early: two queues would share keys, or the keys of
/// one queue would be on several nodes.
fn tag(queue: &str) -> Cow<'_, str> {
    if !queue.contains(['{', '}', '%']) {
        return Cow::Borrowed(queue);
    }
    Cow::Owned(queue.replace('%', "%25").replace('{', "%7B").replace('}', "%7D"))
}

/// The keys of a queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueKeys {
    /// The prefix of all keys of the queue. Scripts derive the keys of lanes and of cached documents from it.
    pub(crate) prefix: String,
}

impl QueueKeys {
    /// A hash: the epoch in which the queue is open, the run of the Redis server, whether the queue is paused, and a
    /// field for each other key of the queue that is removed with it; the field of a lane lists the lane's parts.
    pub(crate) fn state(&self) -> String {
        format!("{}state", self.prefix)
    }

    /// A sorted set: claims that have taken jobs, by the time at which the jobs that they still hold are put back.
    pub(crate) fn held(&self) -> String {
        format!("{}held", self.prefix)
    }

    /// A hash: claimed jobs that the primary store may not know yet, each with the token of the claim, its start time,
    /// and the lane from which it was taken.
    pub(crate) fn owners(&self) -> String {
        format!("{}owners", self.prefix)
    }
}

/// The suffix of a lane's key: a sorted set of its jobs by start time. A long lane has several such sets, named by the
/// scripts.
pub(crate) fn lane_suffix(lane: &Lane) -> String {
    format!("ready:{}:{}", lane.priority, lane.name)
}

/// The lane of a queue whose key has this suffix.
pub(crate) fn lane_of(queue: &str, suffix: &str) -> Option<Lane> {
    let (priority, name) = suffix.strip_prefix("ready:")?.split_once(':')?;
    Some(Lane { queue: queue.to_owned(), name: name.to_owned(), priority: priority.parse().ok()? })
}

/// The suffix of the key under which documents of an hour are cached.
pub(crate) fn documents_suffix(epoch: u64, hour: i64) -> String {
    format!("jobs:{epoch}:{hour}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_a_hash_tag_of_its_own() {
        let tag_of = |queue: &str| {
            let prefix = Namespace::of("ledger").queue(queue).prefix;
            // Like Redis Cluster: the text between the first opening brace and the next closing one.
            let tag = prefix.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag.to_owned());
            (tag.unwrap_or_default(), prefix)
        };
        assert_eq!(tag_of("mail"), ("mail".to_owned(), "punctual:ledger:{mail}:".to_owned()));
        let odd = ["{}", "}", "a", "a}", "a}:state", "{a}", "%7D", "a%7D"];
        let tags: std::collections::BTreeSet<_> = odd.iter().map(|queue| tag_of(queue).0).collect();
        assert_eq!(tags.len(), odd.len(), "{tags:?}");
        assert!(tags.iter().all(|tag| !tag.is_empty()));
    }
}
