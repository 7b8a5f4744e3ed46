//! A workflow before it is submitted.

use std::collections::{BTreeMap, HashMap};

use punctual_core::{
    Error, Ids, Invalid, JobId, NewJob, NewWorkflow, OnParentFailure, ParentResults, Timestamp, Trace, WorkflowId,
    check, flow, limits,
};

use crate::{Draft, Punctual};

/// A set of jobs, each with a unique name in the workflow, and the dependencies among them.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
/// use punctual_client::{Draft, Punctual, Workflow};
/// let punctual = Punctual::connect(&url).await?;
/// let mut workflow = Workflow::new("nightly");
/// workflow.job("extract", Draft::new("extract", &"2026-03-01"));
/// workflow.job("resize", Draft::new("resize", &64)).after(["extract"]);
/// workflow.job("index", Draft::new("index", &())).after(["extract"]);
/// workflow.job("publish", Draft::new("publish", &())).after(["resize", "index"]);
/// workflow.on_failure(Draft::new("notify-oncall", &"nightly failed"));
/// let id = punctual.submit(workflow).await?;
/// assert_eq!(punctual.admin("ada").workflow(id).await?.workflow.ends.total, 4);
/// # Ok::<(), punctual_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Workflow {
    name: String,
    created_by: Option<String>,
    nodes: Vec<NodeDraft>,
    callbacks: BTreeMap<&'static str, (OnParentFailure, Draft)>,
}

#[derive(Debug, Clone)]
struct NodeDraft {
    name: String,
    draft: Draft,
    after: Vec<String>,
}

/// The names of callbacks, which are reserved.
pub(crate) const CALLBACKS: [&str; 3] = ["on_success", "on_failure", "on_complete"];

/// A job of a workflow, to set its dependencies.
#[derive(Debug)]
pub struct Node<'a>(&'a mut NodeDraft);

impl Node<'_> {
    /// Adds parents by their names in the workflow: the job waits until they have succeeded; may be called several
    /// times.
    #[allow(clippy::return_self_not_must_use)]
    pub fn after<N: Into<String>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.0.after.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Policy when a parent becomes dead or cancelled; by default the job is cancelled too.
    #[allow(clippy::return_self_not_must_use)]
    pub fn on_parent_failure(self, policy: OnParentFailure) -> Self {
        self.0.draft.spec_mut().options.on_parent_failure = policy;
        self
    }

    /// Whether the job receives the results of its parents; by default if its definition requests them.
    #[allow(clippy::return_self_not_must_use)]
    pub fn parent_results(self, when: ParentResults) -> Self {
        self.0.draft.spec_mut().options.parent_results = when;
        self
    }
}

impl Workflow {
    /// Creates a workflow without jobs. The name need not be unique.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), created_by: None, nodes: Vec::new(), callbacks: BTreeMap::new() }
    }

    /// The service or person that submits the workflow.
    pub fn created_by(&mut self, creator: impl Into<String>) {
        self.created_by = Some(creator.into());
    }

    /// Adds a job under a unique name.
    pub fn job(&mut self, name: impl Into<String>, job: impl Into<Draft>) -> Node<'_> {
        let node = NodeDraft { name: name.into(), draft: job.into(), after: Vec::new() };
        self.nodes.push(node);
        let last = self.nodes.len() - 1;
        Node(&mut self.nodes[last])
    }

    /// Sets the job that runs after all jobs have succeeded.
    pub fn on_success(&mut self, job: impl Into<Draft>) {
        self.callbacks.insert("on_success", (OnParentFailure::Cancel, job.into()));
    }

    /// Sets the job that runs after all jobs have ended, unless all have succeeded.
    pub fn on_failure(&mut self, job: impl Into<Draft>) {
        self.callbacks.insert("on_failure", (OnParentFailure::Only, job.into()));
    }

    /// Sets the job that runs after all jobs have ended, whatever their status.
    pub fn on_complete(&mut self, job: impl Into<Draft>) {
        self.callbacks.insert("on_complete", (OnParentFailure::Run, job.into()));
    }

    /// Sets the trace that its jobs continue, unless they have one.
    fn continue_trace(&mut self, trace: Option<&Trace>) {
        let drafts = self.nodes.iter_mut().map(|node| &mut node.draft);
        let callbacks = self.callbacks.values_mut().map(|(_, draft)| draft);
        drafts.chain(callbacks).for_each(|draft| draft.continue_trace(trace));
    }

    /// Checks the workflow and assigns ids to it and, by `accept`, to its jobs. Parents precede their children.
    fn into_new(
        self,
        ids: &Ids,
        now: Timestamp,
        accept: impl Fn(Draft) -> Result<NewJob, Invalid>,
    ) -> Result<(NewWorkflow, Vec<NewJob>), Invalid> {
        self.check()?;
        let id = WorkflowId::from_bits(ids.next(now));
        let order = self.order()?;
        let mut nodes: Vec<Option<NodeDraft>> = self.nodes.into_iter().map(Some).collect();
        let (mut jobs, mut known) = (Vec::with_capacity(order.len()), HashMap::<String, JobId>::new());
        for node in order.into_iter().filter_map(|index| nodes[index].take()) {
            let NodeDraft { name, mut draft, after } = node;
            let spec = draft.spec_mut();
            (spec.workflow_id, spec.options.node) = (Some(id), Some(name.clone()));
            draft = draft.after(after.iter().filter_map(|parent| known.get(parent)).copied());
            let job = accept(draft).and_then(without_key).map_err(|invalid| of_job(invalid, &name))?;
            known.insert(name, job.id);
            jobs.push(job);
        }
        let members: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        for (name, (policy, mut draft)) in self.callbacks {
            let options = &mut draft.spec_mut().options;
            (options.node, options.callback_of, options.on_parent_failure) = (Some(name.to_owned()), Some(id), policy);
            let job = accept(draft.after(members.iter().copied())).and_then(without_key);
            jobs.push(job.map_err(|invalid| of_job(invalid, name))?);
        }
        Ok((NewWorkflow { id, name: self.name, created_by: self.created_by }, jobs))
    }

    fn check(&self) -> Result<(), Invalid> {
        check::name("name", &self.name, limits::NAME_MAX_CHARS)?;
        if let Some(creator) = &self.created_by {
            check::name("created_by", creator, limits::LABEL_MAX_CHARS)?;
        }
        if self.nodes.is_empty() {
            return Err(Invalid::new("jobs", "must not be empty; a workflow needs at least one job"));
        }
        if self.nodes.len() > limits::WORKFLOW_MAX_JOBS {
            return Err(Invalid::too_long("jobs", self.nodes.len(), limits::WORKFLOW_MAX_JOBS, "jobs"));
        }
        let own: usize = self.nodes.iter().map(|node| node.after.len()).sum();
        let edges = own + self.callbacks.len() * self.nodes.len();
        if edges > limits::WORKFLOW_MAX_EDGES {
            return Err(Invalid::too_long("after", edges, limits::WORKFLOW_MAX_EDGES, "dependencies"));
        }
        Ok(())
    }

    /// The positions of its jobs, parents first.
    fn order(&self) -> Result<Vec<usize>, Invalid> {
        let mut indexes = HashMap::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            if CALLBACKS.contains(&node.name.as_str()) {
                return Err(Invalid::new("jobs", format!("`{}` is the name of a callback", node.name)));
            }
            if indexes.insert(node.name.as_str(), index).is_some() {
                return Err(Invalid::new("jobs", format!("`{}` is defined twice", node.name)));
            }
        }
        let index_of = |node: &NodeDraft, parent: &String| {
            let unknown =
                || Invalid::new("after", format!("`{parent}` is not a job of this workflow (job `{}`)", node.name));
            indexes.get(parent.as_str()).copied().ok_or_else(unknown)
        };
        let parents = |node: &NodeDraft| node.after.iter().map(|parent| index_of(node, parent)).collect();
        let parents = self.nodes.iter().map(parents).collect::<Result<Vec<Vec<usize>>, Invalid>>()?;
        flow::in_order(&parents).map_err(|cycle| {
            let names = cycle.iter().chain(cycle.first()).map(|index| self.nodes[*index].name.as_str());
            let names: Vec<&str> = names.collect();
            Invalid::new("after", format!("{} form a cycle", names.join(" → ")))
        })
    }
}

/// Refuses a unique key, whether it is the job's own, its type's, or a layer's.
fn without_key(job: NewJob) -> Result<NewJob, Invalid> {
    if job.spec.unique_key.is_some() {
        return Err(Invalid::new("unique_key", "not allowed in a workflow: all of its jobs must be enqueued"));
    }
    Ok(job)
}

/// Adds to an error which job of the workflow is invalid.
fn of_job(invalid: Invalid, name: &str) -> Invalid {
    Invalid { problem: format!("{} (job `{name}` of the workflow)", invalid.problem), ..invalid }
}

impl Punctual {
    /// Submits a workflow: all of its jobs or, if one is refused, none. When this returns, the workflow is durable.
    pub async fn submit(&self, mut workflow: Workflow) -> Result<WorkflowId, Error> {
        let defaults = self.queues.fresh(&**self.store()).await?;
        workflow.continue_trace(self.trace_now().as_ref());
        let now = self.now();
        let (workflow, jobs) = workflow.into_new(self.ids(), now, |draft| self.accept(draft, now, &defaults))?;
        let id = workflow.id;
        if self.first_at.is_some() && self.store().workflow(id).await?.is_some() {
            return Ok(id);
        }
        match self.store().submit(workflow, jobs).await {
            // The same request was submitted concurrently.
            Err(_) if self.first_at.is_some() && self.store().workflow(id).await?.is_some() => Ok(id),
            submitted => Ok(submitted.map(|()| id)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::QueueDefaults;

    fn accepted(workflow: Workflow) -> Result<(NewWorkflow, Vec<NewJob>), Invalid> {
        let (ids, now) = (Ids::seeded(1), Timestamp::from_micros(1));
        workflow.into_new(&ids, now, |draft| draft.into_new_job(&ids, now, &QueueDefaults::new()))
    }

    fn refusal(workflow: Workflow) -> String {
        accepted(workflow).unwrap_err().to_string()
    }

    fn draft() -> Draft {
        Draft::new("test", &())
    }

    #[test]
    fn invalid_workflows_are_refused_by_the_name_of_the_job() {
        assert_eq!(refusal(Workflow::new("w")), "jobs: must not be empty; a workflow needs at least one job");
        let mut cycle = Workflow::new("w");
        cycle.job("a", draft()).after(["c"]);
        cycle.job("b", draft()).after(["a"]);
        cycle.job("c", draft()).after(["b"]);
        assert_eq!(refusal(cycle), "after: b → c → a → b form a cycle");
        let mut own = Workflow::new("w");
        own.job("a", draft()).after(["a"]);
        assert_eq!(refusal(own), "after: a → a form a cycle");
        let mut unknown = Workflow::new("w");
        unknown.job("a", draft()).after(["b"]);
        assert_eq!(refusal(unknown), "after: `b` is not a job of this workflow (job `a`)");
        let mut twice = Workflow::new("w");
        twice.job("a", draft());
        twice.job("a", draft());
        assert_eq!(refusal(twice), "jobs: `a` is defined twice");
        let mut callback = Workflow::new("w");
        callback.job("on_success", draft());
        assert_eq!(refusal(callback), "jobs: `on_success` is the name of a callback");
        let mut keyed = Workflow::new("w");
        keyed.job("a", draft().unique_key("k"));
        assert!(refusal(keyed).ends_with("(job `a` of the workflow)"));
        let mut wrong = Workflow::new("w");
        wrong.job("a", draft().priority(11));
        assert_eq!(refusal(wrong), "priority: must be between 0 and 10, not 11 (job `a` of the workflow)");
    }

    #[test]
    fn parents_come_first_and_callbacks_last() {
        let mut workflow = Workflow::new("w");
        workflow.job("c", draft()).after(["a", "b", "a"]);
        workflow.job("b", draft()).after(["a"]);
        workflow.job("a", draft());
        workflow.on_complete(draft());
        let (new, jobs) = accepted(workflow).unwrap();
        let nodes: Vec<_> = jobs.iter().map(|job| job.spec.workflow_node().unwrap()).collect();
        assert_eq!(nodes, [(new.id, "a"), (new.id, "b"), (new.id, "c"), (new.id, "on_complete")]);
        assert_eq!(jobs[2].parents, [jobs[0].id, jobs[1].id], "each once");
        assert_eq!(jobs[3].parents.len(), 3);
        assert_eq!(jobs[3].spec.workflow_id, None, "a callback is no job of the workflow");
    }
}
