//! Operations on whole workflows: show, cancel, retry.

use std::collections::{BTreeMap, HashMap};

use punctual_core::{
    Change, Changed, Error, Job, JobId, NewJob, Node, Spec, Status, Verb, Workflow, WorkflowId, WorkflowStatus, check,
    flow, limits, natural, redact,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Admin;
use crate::workflow::CALLBACKS;

/// Maximum number of changes per transaction.
const PAGE_MAX_CHANGES: usize = 500;
/// Maximum number of results in a workflow's result.
const RESULTS_SHOWN: usize = 100;

/// A workflow with its status and progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowView {
    /// The workflow.
    #[serde(flatten)]
    pub workflow: Workflow,
    /// Its status.
    pub status: WorkflowStatus,
    /// Finished jobs, in percent of all.
    pub progress: f32,
}

impl WorkflowView {
    /// Creates the view of a workflow.
    pub fn of(workflow: Workflow) -> Self {
        let (total, left) = (workflow.ends.total, workflow.ends.unfinished());
        let progress = if total == 0 { 100.0 } else { 100.0 * (total - left) as f32 / total as f32 };
        Self { status: workflow.status(), workflow, progress }
    }
}

/// A page of workflows, latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowList {
    /// The workflows.
    pub workflows: Vec<WorkflowView>,
    /// The cursor of the next page, if there is one.
    pub next: Option<WorkflowId>,
}

/// A workflow with its jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowDetail {
    /// The workflow.
    #[serde(flatten)]
    pub view: WorkflowView,
    /// Its jobs and callbacks, by name.
    pub nodes: Vec<Node>,
    /// The results of the jobs on which no other job depends, by name, with secrets redacted.
    pub result: BTreeMap<String, Value>,
}

impl std::ops::Deref for WorkflowDetail {
    type Target = WorkflowView;

    fn deref(&self) -> &WorkflowView {
        &self.view
    }
}

/// The result of a workflow retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowRetried {
    /// Number of dead jobs that were retried.
    pub retried: usize,
    /// Number of new jobs that replace cancelled jobs and callbacks.
    pub renewed: usize,
}

impl Admin {
    /// Returns a page of workflows, latest first.
    pub async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> Result<WorkflowList, Error> {
        check::range("limit", limit, 1..=limits::PAGE_MAX_WORKFLOWS)?;
        let mut found = self.punctual.store().workflows(before, limit + 1).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| last.id);
        Ok(WorkflowList { workflows: found.into_iter().map(WorkflowView::of).collect(), next })
    }

    /// Returns a workflow with its jobs.
    pub async fn workflow(&self, id: WorkflowId) -> Result<WorkflowDetail, Error> {
        let store = self.punctual.store();
        let workflow = store.workflow(id).await?.ok_or(Error::NoWorkflow(id))?;
        let mut nodes = store.nodes(id).await?;
        nodes.sort_by(|a, b| natural::compare(&a.node, &b.node));
        let result = self.result(&nodes).await?;
        Ok(WorkflowDetail { view: WorkflowView::of(workflow), nodes, result })
    }

    /// The results of the jobs on which no other job depends.
    async fn result(&self, nodes: &[Node]) -> Result<BTreeMap<String, Value>, Error> {
        let members = || nodes.iter().filter(|node| !is_callback(node));
        let waited_for: Vec<JobId> = members().flat_map(|node| node.parents.iter().copied()).collect();
        let waited_for: std::collections::HashSet<JobId> = waited_for.into_iter().collect();
        let sinks = members().filter(|node| !waited_for.contains(&node.id) && node.status == Status::Succeeded);
        let names: HashMap<JobId, &str> = sinks.take(RESULTS_SHOWN).map(|node| (node.id, node.node.as_str())).collect();
        let mut results = BTreeMap::new();
        for (id, name) in names {
            let job = self.punctual.job(id).await?;
            if let Some(result) = &job.result {
                results.insert(name.to_owned(), redact::preview(result, &job.spec.options.redact_keys));
            }
        }
        Ok(results)
    }

    /// Cancels the unfinished jobs of a workflow; returns their number. Callbacks run as they do at any other end.
    pub async fn cancel_workflow(&self, id: WorkflowId, reason: Option<String>) -> Result<u64, Error> {
        if let Some(reason) = &reason {
            check::text("reason", reason, limits::DESCRIPTION_MAX_CHARS)?;
        }
        let before = self.workflow(id).await?;
        let active = before.nodes.iter().filter(|node| node.status.is_active() && !is_callback(node));
        let reason = reason.unwrap_or_else(|| "the workflow was cancelled".to_owned());
        let change = |node: &Node| self.change_of(node.id, Verb::Cancel, Some(reason.clone()));
        let changes: Vec<Change> = active.map(change).collect();
        for part in changes.chunks(PAGE_MAX_CHANGES) {
            self.punctual.store().change(part.to_vec()).await?;
        }
        let after = self.punctual.store().workflow(id).await?.ok_or(Error::NoWorkflow(id))?;
        Ok(u64::from(after.ends.cancelled.saturating_sub(before.workflow.ends.cancelled)))
    }

    /// Retries a workflow: its dead jobs run again; cancelled jobs and callbacks are replaced by new ones with the same
    /// dependencies. Succeeded jobs and jobs in progress are left alone.
    pub async fn retry_workflow(&self, id: WorkflowId) -> Result<WorkflowRetried, Error> {
        let nodes = self.workflow(id).await?.nodes;
        let dead: Vec<&Node> = nodes.iter().filter(|node| node.status == Status::Dead && !is_callback(node)).collect();
        let cancelled = nodes.iter().any(|node| node.status == Status::Cancelled && !is_callback(node));
        if dead.is_empty() && !cancelled {
            return Err(Error::NothingToRetry(id));
        }
        let mut changes: Vec<Change> = dead.iter().map(|node| self.change_of(node.id, Verb::Retry, None)).collect();
        // The old callbacks may have seen the failure; new ones run for the result of the retry.
        let seen = nodes.iter().filter(|node| is_callback(node) && node.status.is_active());
        let replaced = Some("the workflow is retried".to_owned());
        changes.extend(seen.map(|node| self.change_of(node.id, Verb::Cancel, replaced.clone())));
        let renewed = self.renew(&nodes).await?;
        let done = WorkflowRetried { retried: dead.len(), renewed: renewed.len() };
        let answers = self.punctual.store().resubmit(changes, renewed).await?;
        match answers
            .into_iter()
            .find_map(|answer| if let Changed::Refused(refused) = answer { Some(refused) } else { None })
        {
            Some(refused) => Err(refused.into()),
            None => Ok(done),
        }
    }

    /// New jobs that replace cancelled jobs and callbacks, parents first.
    async fn renew(&self, nodes: &[Node]) -> Result<Vec<NewJob>, Error> {
        let renewed: Vec<&Node> =
            nodes.iter().filter(|node| is_callback(node) || node.status == Status::Cancelled).collect();
        let indexes: HashMap<JobId, usize> = renewed.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
        let parents: Vec<Vec<usize>> = renewed
            .iter()
            .map(|node| node.parents.iter().filter_map(|parent| indexes.get(parent)).copied().collect())
            .collect();
        // A stored workflow has no cycle.
        let order = flow::in_order(&parents).unwrap_or_default();
        let (now, mut ids) = (self.punctual.store().now(), HashMap::<JobId, JobId>::new());
        let mut jobs = Vec::with_capacity(order.len());
        for node in order.into_iter().map(|index| renewed[index]) {
            let new = JobId::from_bits(self.punctual.ids().next(now));
            let parents = node.parents.iter().map(|parent| ids.get(parent).copied().unwrap_or(*parent)).collect();
            let old = self.punctual.job(node.id).await?;
            jobs.push(NewJob { parents, ..NewJob::new(new, again(old)) });
            ids.insert(node.id, new);
        }
        Ok(jobs)
    }

    fn change_of(&self, job: JobId, verb: Verb, reason: Option<String>) -> Change {
        Change { job, verb, actor: self.actor.clone(), reason }
    }
}

/// The specification of a job that replaces another one.
fn again(old: Job) -> Spec {
    let mut spec = old.spec;
    spec.options.rerun_of = Some(old.id);
    spec
}

/// Whether a node is a callback, not a job of its workflow.
pub fn is_callback(node: &Node) -> bool {
    CALLBACKS.contains(&node.node.as_str())
}
