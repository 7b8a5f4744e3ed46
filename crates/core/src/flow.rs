//! Dependencies between jobs. Pure decisions: engines load the dependencies, and store the results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{JobId, Status, StoreError, Timestamp};

/// What a job does when one of its parents is dead, cancelled or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnParentFailure {
    /// The job is cancelled. Its own children then follow their own policies.
    #[default]
    Cancel,
    /// The job runs anyway.
    Run,
    /// The job keeps waiting, so that the parent can be retried.
    Wait,
    /// The job runs only in that case: once all parents have ended, unless all of them succeeded.
    Only,
}

impl OnParentFailure {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::Cancel, Self::Run, Self::Wait, Self::Only];

    /// The name in all interfaces and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Run => "run",
            Self::Wait => "wait",
            Self::Only => "only",
        }
    }
}

impl fmt::Display for OnParentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An unknown policy for failed parents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{0}`: expected cancel, run, wait or only")]
pub struct UnknownPolicy(String);

impl FromStr for OnParentFailure {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        known.ok_or_else(|| UnknownPolicy(text.chars().take(64).collect()))
    }
}

/// Whether a job receives the results of its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ParentResults {
    /// If the definition of its handler requests them.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ParentResults {
    /// Whether the results are passed, given whether the definition requests them.
    pub const fn wanted(self, requested: bool) -> bool {
        match self {
            Self::Auto => requested,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// A parent or a child of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Relative {
    /// Job ID.
    pub id: JobId,
    /// Name of the job in its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Status of the job.
    pub status: Status,
}

/// What the status of a parent means to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The job still waits for this parent.
    Pending,
    /// The job no longer waits for this parent.
    Met {
        /// Whether the parent has succeeded.
        succeeded: bool,
    },
    /// The job is cancelled.
    Cancel,
}

impl Fate {
    /// Whether the parent succeeded, as seen by the job; nothing while the job waits for it.
    pub const fn succeeded(self) -> Option<bool> {
        match self {
            Self::Pending => None,
            Self::Met { succeeded } => Some(succeeded),
            Self::Cancel => Some(false),
        }
    }
}

/// What a parent with this status means to a job with this policy.
pub const fn fate(policy: OnParentFailure, parent: Status) -> Fate {
    match (parent, policy) {
        (Status::Succeeded, _) => Fate::Met { succeeded: true },
        (Status::Dead | Status::Cancelled | Status::Deleted, OnParentFailure::Run | OnParentFailure::Only) => {
            Fate::Met { succeeded: false }
        }
        // A deleted parent cannot be retried.
        (Status::Deleted, OnParentFailure::Wait) => Fate::Cancel,
        (Status::Dead | Status::Cancelled | Status::Deleted, OnParentFailure::Cancel) => Fate::Cancel,
        _ => Fate::Pending,
    }
}

/// What a waiting job does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The job keeps waiting.
    Wait(Waiting),
    /// The job may start.
    Start,
    /// The job is cancelled, for this reason.
    Cancel(String),
}

/// The state of a job with respect to its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The number of parents that it waits for.
    pub on: u32,
    /// Whether one of the other parents did not succeed.
    pub any_failed: bool,
}

impl Waiting {
    /// The state of a new job, given what each parent means to it.
    pub fn of(fates: impl IntoIterator<Item = Fate>) -> Self {
        let none = Self { on: 0, any_failed: false };
        fates.into_iter().fold(none, |waiting, fate| Self {
            on: waiting.on + u32::from(fate == Fate::Pending),
            any_failed: waiting.any_failed || fate == (Fate::Met { succeeded: false }),
        })
    }

    /// What a job with this policy does next in this state.
    fn next(self, policy: OnParentFailure) -> Next {
        match self.on {
            0 if policy == OnParentFailure::Only && !self.any_failed => {
                Next::Cancel("all its parents succeeded".to_owned())
            }
            0 => Next::Start,
            _ => Next::Wait(self),
        }
    }
}

fn reason(parent: JobId, status: Status) -> String {
    format!("its parent {parent} is {status}")
}

/// The first action of a new job, and what each parent means to it.
pub fn begin(policy: OnParentFailure, parents: &[(JobId, Status)]) -> (Next, Vec<Fate>) {
    let fates: Vec<Fate> = parents.iter().map(|(_, status)| fate(policy, *status)).collect();
    let cancelled = parents.iter().zip(&fates).find(|(_, fate)| **fate == Fate::Cancel);
    let next = match cancelled {
        None if parents.is_empty() => Next::Start,
        Some(((parent, status), _)) => Next::Cancel(reason(*parent, *status)),
        None => {
            let on = fates.iter().filter(|fate| **fate == Fate::Pending).count() as u32;
            let any_failed = fates.contains(&Fate::Met { succeeded: false });
            Waiting { on, any_failed }.next(policy)
        }
    };
    (next, fates)
}

/// Like [`begin`], with the known statuses of the parents. A job cannot depend on a job that is unknown or deleted.
pub fn begin_with(
    policy: OnParentFailure,
    parents: &[JobId],
    status: impl Fn(JobId) -> Option<Status>,
) -> Result<(Next, Vec<Fate>), StoreError> {
    let known = |id: &JobId| {
        let status = status(*id).filter(|status| *status != Status::Deleted);
        status.map(|status| (*id, status)).ok_or(StoreError::UnknownParent(*id))
    };
    Ok(begin(policy, &parents.iter().map(known).collect::<Result<Vec<_>, _>>()?))
}

/// A dependency: one job waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The job that must end.
    pub parent: JobId,
    /// The job that waits.
    pub child: JobId,
    /// What the child does if the parent fails.
    pub policy: OnParentFailure,
}

/// The consequences of the end of jobs for the jobs that wait for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Consequences {
    /// Parents that their children no longer wait for, and whether they succeeded.
    pub met: Vec<(JobId, JobId, bool)>,
    /// What each child does next.
    pub children: BTreeMap<JobId, Next>,
}

/// The consequences of the end of `ended` for the jobs that wait for them by `edges`. Children that no longer wait, and
/// so are not in `waiting`, are not changed.
pub fn follow(ended: &BTreeMap<JobId, Status>, edges: &[Edge], waiting: &BTreeMap<JobId, Waiting>) -> Consequences {
    let mut all = Consequences::default();
    let mut left = BTreeMap::<JobId, (Waiting, OnParentFailure)>::new();
    for Edge { parent, child, policy } in edges {
        let (Some(status), Some(waits)) = (ended.get(parent), waiting.get(child)) else { continue };
        let (now, _) = left.entry(*child).or_insert((*waits, *policy));
        match fate(*policy, *status) {
            Fate::Pending => {}
            Fate::Met { succeeded } => {
                now.on = now.on.saturating_sub(1);
                now.any_failed |= !succeeded;
                all.met.push((*parent, *child, succeeded));
            }
            Fate::Cancel => {
                all.met.push((*parent, *child, false));
                all.children.entry(*child).or_insert_with(|| Next::Cancel(reason(*parent, *status)));
            }
        }
    }
    for (child, (waits, policy)) in left {
        if Some(&waits) != waiting.get(&child) {
            all.children.entry(child).or_insert_with(|| waits.next(policy));
        }
    }
    all
}

/// The status and the start time of a job whose parents have ended at `now`.
pub fn start_after_parents(run_at: Timestamp, now: Timestamp) -> (Status, Timestamp) {
    if run_at > now { (Status::Scheduled, run_at) } else { (Status::Queued, now) }
}

/// The indexes of items in an order in which parents come before children; or, if there is none, the indexes of a
/// cycle.
///
/// `parents` contains for each item the indexes of the items that it waits for.
pub fn in_order(parents: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut children = vec![Vec::new(); parents.len()];
    let mut open: Vec<usize> = parents.iter().map(Vec::len).collect();
    for (child, parents) in parents.iter().enumerate() {
        parents.iter().for_each(|parent| children[*parent].push(child));
    }
    let mut order: Vec<usize> = (0..parents.len()).filter(|index| open[*index] == 0).collect();
    let mut next = 0;
    while let Some(parent) = order.get(next).copied() {
        next += 1;
        for child in &children[parent] {
            open[*child] -= 1;
            if open[*child] == 0 {
                order.push(*child);
            }
        }
    }
    if order.len() == parents.len() { Ok(order) } else { Err(cycle(parents, &open)) }
}

/// A cycle among the items that still wait: starting at any of them, one of its waiting parents, and so on.
fn cycle(parents: &[Vec<usize>], open: &[usize]) -> Vec<usize> {
    let waits = |index: &usize| open[*index] > 0;
    let (mut path, mut seen) = (Vec::new(), BTreeSet::new());
    let mut current = (0..parents.len()).find(waits);
    while let Some(index) = current {
        if !seen.insert(index) {
            path.drain(..path.iter().position(|other| *other == index).unwrap_or(0));
            break;
        }
        path.push(index);
        current = parents[index].iter().copied().find(waits);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u128) -> JobId {
        JobId::from_bits(number)
    }

    #[test]
    fn every_end_of_a_parent_has_its_meaning_for_every_policy() {
        use OnParentFailure::{Cancel, Only, Run, Wait};
        for policy in OnParentFailure::ALL {
            assert_eq!(fate(policy, Status::Succeeded), Fate::Met { succeeded: true });
            for active in Status::ALL.into_iter().filter(|status| status.is_active()) {
                assert_eq!(fate(policy, active), Fate::Pending, "{policy} {active}");
            }
        }
        for failed in [Status::Dead, Status::Cancelled] {
            assert_eq!(fate(Cancel, failed), Fate::Cancel);
            assert_eq!(fate(Run, failed), Fate::Met { succeeded: false });
            assert_eq!(fate(Only, failed), Fate::Met { succeeded: false });
            assert_eq!(fate(Wait, failed), Fate::Pending);
        }
        assert_eq!(fate(Wait, Status::Deleted), Fate::Cancel);
    }

    #[test]
    fn the_first_status_of_a_job_depends_on_those_of_its_parents() {
        let waits = |on| Waiting { on, any_failed: false };
        let begins = |policy, statuses: &[Status]| {
            let parents: Vec<_> = statuses.iter().map(|status| (job(1), *status)).collect();
            begin(policy, &parents).0
        };
        assert_eq!(begins(OnParentFailure::Cancel, &[Status::Succeeded]), Next::Start);
        assert_eq!(begins(OnParentFailure::Cancel, &[Status::Succeeded, Status::Queued]), Next::Wait(waits(1)));
        assert_eq!(begins(OnParentFailure::Run, &[Status::Dead]), Next::Start);
        assert_eq!(begins(OnParentFailure::Wait, &[Status::Dead]), Next::Wait(waits(1)));
        assert_eq!(begins(OnParentFailure::Only, &[Status::Dead]), Next::Start);
        assert_eq!(begins(OnParentFailure::Only, &[]), Next::Start);
        assert!(matches!(begins(OnParentFailure::Only, &[Status::Succeeded]), Next::Cancel(_)));
        assert!(matches!(begins(OnParentFailure::Cancel, &[Status::Queued, Status::Dead]), Next::Cancel(_)));
    }

    #[test]
    fn a_new_job_depends_only_on_jobs_that_are_known_and_not_deleted() {
        let statuses = BTreeMap::from([(job(1), Status::Queued), (job(2), Status::Deleted)]);
        let begin = |parents: &[JobId]| begin_with(OnParentFailure::Run, parents, |id| statuses.get(&id).copied());
        let (next, fates) = begin(&[job(1)]).unwrap();
        assert_eq!((next, fates), (Next::Wait(Waiting { on: 1, any_failed: false }), vec![Fate::Pending]));
        for unknown in [2, 3] {
            let refused = begin(&[job(1), job(unknown)]);
            assert!(matches!(refused, Err(StoreError::UnknownParent(id)) if id == job(unknown)));
        }
    }

    #[test]
    fn ends_that_come_together_are_reported_together() {
        let edge = |parent, child| Edge { parent: job(parent), child: job(child), policy: OnParentFailure::Cancel };
        let ended = BTreeMap::from([(job(1), Status::Succeeded), (job(2), Status::Succeeded), (job(3), Status::Dead)]);
        let waits = |on| Waiting { on, any_failed: false };
        let waiting = BTreeMap::from([(job(10), waits(2)), (job(11), waits(3)), (job(12), waits(2))]);
        let edges = [edge(1, 10), edge(2, 10), edge(1, 11), edge(3, 12), edge(1, 12), edge(1, 13)];
        let all = follow(&ended, &edges, &waiting);
        assert_eq!(all.children[&job(10)], Next::Start);
        assert_eq!(all.children[&job(11)], Next::Wait(waits(2)));
        assert_eq!(all.children[&job(12)], Next::Cancel(format!("its parent {} is dead", job(3))));
        assert_eq!(all.children.len(), 3, "one that no longer waits is left alone");
    }

    #[test]
    fn parents_come_first_and_a_cycle_is_named() {
        assert_eq!(in_order(&[vec![1], vec![], vec![0, 1]]), Ok(vec![1, 0, 2]));
        assert_eq!(in_order(&[vec![], vec![3], vec![1], vec![2]]), Err(vec![2, 3, 1]));
        assert_eq!(in_order(&[vec![0]]), Err(vec![0]));
    }
}
