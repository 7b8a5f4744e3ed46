//! What is where in Redis. All keys of a queue have the same hash tag, so that they are on the same node of a cluster.

use std::borrow::Cow;

use punctual_core::{JobId, WorkerId, dispatch::Lane};

/// The beginning of every key: which primary store's jobs they are about.
#[derive(Debug, Clone)]
pub(crate) struct Namespace(String);

impl Namespace {
    /// That of the primary store of this name.
    pub(crate) fn of(store_id: &str) -> Self {
        Self(format!("punctual:{store_id}"))
    }

    /// Matches every key, as `SCAN` reads it.
    pub(crate) fn pattern(&self) -> String {
        let escaped: String = self
            .0
            .chars()
            .flat_map(|c| ['\\'].into_iter().filter(move |_| "*?[]\\^-".contains(c)).chain([c]))
            .collect();
        format!("{escaped}:*")
    }

    /// Says which run of the primary store's server the jobs are of, for as long as it is kept. With the name of a
    /// queue, on that queue's node.
    pub(crate) fn owner(&self, queue: Option<&str>) -> String {
        match queue {
            None => format!("{}:owner", self.0),
            Some(queue) => format!("{}owner", self.queue(queue).prefix),
        }
    }

    /// Hints to those who wait for work: the name of a queue.
    pub(crate) fn channel(&self) -> String {
        format!("{}:work", self.0)
    }

    /// Says that a worker is there, for as long as it is kept.
    pub(crate) fn worker(&self, worker: WorkerId) -> String {
        format!("{}:worker:{worker}", self.0)
    }

    /// A lock: until when, and whose.
    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}:lock:{name}", self.0)
    }

    /// The lock of a job that begins before its owner knows.
    pub(crate) fn job_lock(&self, job: JobId) -> String {
        format!("{}:job:{job}", self.0)
    }

    /// A hash: how often what had to be put right.
    pub(crate) fn repairs(&self) -> String {
        format!("{}:repairs", self.0)
    }

    pub(crate) fn queue(&self, queue: &str) -> QueueKeys {
        QueueKeys { prefix: format!("{}:{{{}}}:", self.0, tag(queue)) }
    }
}

/// The hash tag of a queue. A brace would end it early: two queues would share keys, or those of one would be on
/// several nodes.
fn tag(queue: &str) -> Cow<'_, str> {
    if !queue.contains(['{', '}', '%']) {
        return Cow::Borrowed(queue);
    }
    Cow::Owned(queue.replace('%', "%25").replace('{', "%7B").replace('}', "%7D"))
}

/// The keys of a queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueKeys {
    /// With which they begin. Scripts make the keys of lanes and of cached documents from it.
    pub(crate) prefix: String,
}

impl QueueKeys {
    /// A hash: the epoch in which the queue is open, the run of the server, whether it is paused, and a field for each
    /// other key of the queue that is to go with it; that of a lane says which parts it has.
    pub(crate) fn state(&self) -> String {
        format!("{}state", self.prefix)
    }

    /// A sorted set: claims that have taken jobs, by the time at which those are given up that are still in their
    /// hands.
    pub(crate) fn held(&self) -> String {
        format!("{}held", self.prefix)
    }

    /// A hash: jobs in somebody's hands of which their owner may not know yet, with the token of the claim, when it may
    /// start, and in which lane it was.
    pub(crate) fn owners(&self) -> String {
        format!("{}owners", self.prefix)
    }
}

/// What the key of a lane ends with: a sorted set of its jobs, by the time at which they may start. A long one has more
/// of them, which scripts name.
pub(crate) fn lane_suffix(lane: &Lane) -> String {
    format!("ready:{}:{}", lane.priority, lane.name)
}

/// The lane of a queue whose key ends with that.
pub(crate) fn lane_of(queue: &str, suffix: &str) -> Option<Lane> {
    let (priority, name) = suffix.strip_prefix("ready:")?.split_once(':')?;
    Some(Lane { queue: queue.to_owned(), name: name.to_owned(), priority: priority.parse().ok()? })
}

/// What the key ends with under which jobs of an hour are cached.
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
            // As Redis Cluster finds it: between the first brace and the next closing one.
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
