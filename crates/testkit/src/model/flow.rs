//! Dependencies between jobs in the model.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use punctual_core::{
    Change, Changed, Ends, JobId, Json, NewJob, NewWorkflow, Node, Relative, Status, StoreError, StoreResult,
    Timestamp, Verb, Workflow, WorkflowId, change,
    flow::{self, Edge, Next, Waiting},
    store::ports::FlowStore,
    transfer::Dependency,
    workflow::EndsChange,
};

use super::{
    state::{Cause, NewEvent, State},
    store::ModelStore,
};

impl State {
    /// Rejects jobs that would replace other jobs of a workflow than the ones that they rerun.
    fn check_nodes(&self, jobs: &[NewJob]) -> StoreResult<()> {
        for job in jobs {
            let node = job.spec.workflow_node().map(|(workflow, node)| (workflow, node.to_owned()));
            let former = node.and_then(|node| self.nodes.get(&node)).copied();
            if let Some(former) = former.filter(|former| job.spec.options.rerun_of != Some(*former)) {
                return Err(StoreError::Superseded(former));
            }
        }
        Ok(())
    }

    /// Rejects jobs whose parents do not exist.
    pub(super) fn check_parents(&mut self, now: Timestamp, jobs: &[NewJob]) -> StoreResult<()> {
        let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
        for (index, job) in jobs.iter().enumerate() {
            let key = job.spec.unique_key().map(|(scope, key)| (scope, key.to_owned()));
            if key.is_some_and(|key| self.in_the_way(now, &key, job).is_some() || !taken.insert(key)) {
                // The job is not stored, so its parents do not matter.
                continue;
            }
            for parent in &job.parents {
                let known = self.find(*parent).is_some_and(|record| record.job.status != Status::Deleted);
                if !known && !jobs[..index].iter().any(|earlier| earlier.id == *parent) {
                    return Err(StoreError::UnknownParent(*parent));
                }
            }
        }
        Ok(())
    }

    fn statuses(&mut self, ids: &[JobId]) -> Vec<(JobId, Status)> {
        ids.iter().filter_map(|id| Some((*id, self.find(*id)?.job.status))).collect()
    }

    /// The first action of a new job.
    pub(super) fn begin(&mut self, new: &NewJob) -> Next {
        flow::begin(new.spec.options.on_parent_failure, &self.statuses(&new.parents)).0
    }

    /// Adds the dependencies of a new job; returns the number of parents that it waits for.
    pub(super) fn join(&mut self, new: &NewJob) -> u32 {
        let policy = new.spec.options.on_parent_failure;
        let (_, fates) = flow::begin(policy, &self.statuses(&new.parents));
        for (parent, fate) in new.parents.iter().zip(&fates) {
            let dependency = Dependency { parent: *parent, child: new.id, policy, succeeded: fate.succeeded() };
            self.dependencies.push(dependency);
        }
        let waiting = Waiting::of(fates);
        if waiting.any_failed {
            self.saw_failure.insert(new.id);
        }
        waiting.on
    }

    /// Records that a job changed from one status to another.
    pub(super) fn moved(&mut self, now: Timestamp, id: JobId, from: Status, to: Status) {
        if to.is_finished() {
            self.ended.insert(id, to);
        }
        // A job that was replaced in its workflow is no longer counted.
        let node = self.find(id).and_then(|record| {
            let (workflow, node) = record.job.workflow_node()?;
            record.job.spec.workflow_id.map(|_| (workflow, node.to_owned()))
        });
        let workflow = node.filter(|node| self.nodes.get(node) == Some(&id)).map(|(workflow, _)| workflow);
        if to.is_finished() || from.is_finished() {
            self.count_end(now, workflow, from, to);
        }
    }

    fn count_end(&mut self, now: Timestamp, workflow: Option<WorkflowId>, from: Status, to: Status) {
        let Some(workflow) = workflow.and_then(|id| self.workflows.get_mut(&id)) else { return };
        let change = EndsChange::of(from, to);
        if change == EndsChange::default() {
            return;
        }
        let EndsChange { succeeded, dead, cancelled } = change;
        let ends = &mut workflow.ends;
        ends.succeeded = ends.succeeded.checked_add_signed(succeeded).expect("a count");
        ends.dead = ends.dead.checked_add_signed(dead).expect("a count");
        ends.cancelled = ends.cancelled.checked_add_signed(cancelled).expect("a count");
        workflow.updated_at = now;
    }

    /// Applies the consequences of the end of jobs until there are no more.
    pub(super) fn follow(&mut self, now: Timestamp) {
        while !self.ended.is_empty() {
            let ended = std::mem::take(&mut self.ended);
            let (mut edges, mut waiting) = (Vec::new(), BTreeMap::new());
            for parent in ended.keys() {
                for edge in self.dependencies.iter().filter(|edge| edge.parent == *parent && edge.succeeded.is_none()) {
                    edges.push(Edge { parent: edge.parent, child: edge.child, policy: edge.policy });
                }
            }
            for Edge { child, .. } in &edges {
                let failed = self.saw_failure.contains(child);
                if let Some(record) = self.find(*child).filter(|record| record.job.status == Status::Waiting) {
                    waiting.insert(*child, Waiting { on: record.job.waiting_on, any_failed: failed });
                }
            }
            let all = flow::follow(&ended, &edges, &waiting);
            for (parent, child, succeeded) in all.met {
                let met = self.dependencies.iter_mut().find(|edge| (edge.parent, edge.child) == (parent, child));
                met.expect("an edge that was followed").succeeded = Some(succeeded);
            }
            for (child, next) in all.children {
                match next {
                    Next::Wait(waiting) => self.wait(child, waiting),
                    Next::Start => self.start(now, child),
                    Next::Cancel(reason) => self.cancel(now, child, &reason),
                }
            }
        }
    }

    fn wait(&mut self, id: JobId, waiting: Waiting) {
        self.find(id).expect("a child").job.waiting_on = waiting.on;
        if waiting.any_failed {
            self.saw_failure.insert(id);
        }
    }

    fn start(&mut self, now: Timestamp, id: JobId) {
        let job = &mut self.find(id).expect("a child").job;
        (job.status, job.run_at) = flow::start_after_parents(job.run_at, now);
        job.waiting_on = 0;
        job.updated_at = now;
        let status = job.status;
        self.event(id, NewEvent::new(now, status));
    }

    pub(super) fn cancel(&mut self, now: Timestamp, id: JobId, reason: &str) {
        let job = &mut self.find(id).expect("a child").job;
        let before = job.clone();
        if change::apply(Verb::Cancel, job, now) == Ok(false) {
            self.changed(now, &before, Cause { actor: None, detail: Some(reason) });
        }
    }

    /// Jobs are about to be removed: to their children, they are deleted.
    pub(super) fn lose(&mut self, now: Timestamp, gone: &[JobId]) {
        // A job that is removed together with its parent must not be cancelled, and counted, by the parent's end too.
        self.dependencies.retain(|edge| !gone.contains(&edge.child));
        for id in gone {
            let Some(status) = self.find(*id).map(|record| record.job.status) else { continue };
            if status != Status::Deleted {
                self.moved(now, *id, status, Status::Deleted);
            }
        }
        self.follow(now);
        self.dependencies.retain(|edge| !gone.contains(&edge.parent));
        self.nodes.retain(|_, job| !gone.contains(job));
    }

    /// Adds a job to its workflow, possibly replacing another one.
    pub(super) fn take_node(&mut self, now: Timestamp, id: JobId, node: (WorkflowId, String)) {
        let former = self.nodes.insert(node, id);
        let status = former.and_then(|former| self.find(former)).map(|record| record.job.status);
        if let (Some(status), Some(record)) = (status, self.find(id)) {
            let workflow = record.job.spec.workflow_id;
            self.count_end(now, workflow, status, Status::Waiting);
        }
    }

    pub(super) fn submit(&mut self, now: Timestamp, new: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.check_parents(now, &jobs)?;
        let total = jobs.iter().filter(|job| job.spec.workflow_id == Some(new.id)).count() as u32;
        let workflow = Workflow {
            id: new.id,
            name: new.name,
            created_by: new.created_by,
            created_at: now,
            updated_at: now,
            ends: Ends { total, ..Ends::default() },
        };
        self.workflows.insert(new.id, workflow);
        self.enqueue_all(now, jobs).map(drop)
    }

    pub(super) fn resubmit(
        &mut self,
        now: Timestamp,
        changes: Vec<Change>,
        jobs: Vec<NewJob>,
    ) -> StoreResult<Vec<Changed>> {
        self.check_parents(now, &jobs)?;
        self.check_nodes(&jobs)?;
        let changed = self.change_all(now, changes);
        self.enqueue_all(now, jobs)?;
        Ok(changed)
    }

    pub(super) fn nodes(&mut self, workflow: WorkflowId) -> Vec<Node> {
        let of_it =
            |((id, node), job): (&(WorkflowId, String), &JobId)| (*id == workflow).then(|| (node.clone(), *job));
        let nodes: Vec<(String, JobId)> = self.nodes.iter().filter_map(of_it).collect();
        let node = |(node, id): (String, JobId)| {
            let parents = self.relatives(|edge| (edge.child == id).then_some(edge.parent));
            let job = &self.find(id)?.job;
            let parents = parents.into_iter().map(|parent| parent.id).collect();
            Some(Node { node, id, name: job.spec.name.clone(), status: job.status, parents })
        };
        nodes.into_iter().filter_map(node).collect()
    }

    /// The jobs that `wanted` selects at the other end of a dependency, by id.
    pub(super) fn relatives(&mut self, wanted: impl Fn(&Dependency) -> Option<JobId>) -> Vec<Relative> {
        let mut ids: Vec<JobId> = self.dependencies.iter().filter_map(wanted).collect();
        ids.sort_unstable();
        let relative = |id: JobId| {
            let job = &self.find(id)?.job;
            Some(Relative { id, node: job.spec.options.node.clone(), status: job.status })
        };
        ids.into_iter().filter_map(relative).collect()
    }

    pub(super) fn prune_workflows(&mut self, cutoff: Timestamp) {
        let nodes = &self.nodes;
        let empty = |id: WorkflowId| !nodes.keys().any(|(workflow, _)| *workflow == id);
        self.workflows.retain(|id, workflow| workflow.updated_at > cutoff || !empty(*id));
    }
}

#[async_trait]
impl FlowStore for ModelStore {
    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.write(|state, now| state.submit(now, workflow, jobs))?
    }

    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
        self.write(|state, now| state.resubmit(now, changes, jobs))?
    }

    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
        Ok(self.state().workflows.get(&id).cloned())
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
        let before = before.unwrap_or(WorkflowId::from_bits(u128::MAX));
        Ok(self.state().workflows.range(..before).rev().take(limit).map(|(_, one)| one.clone()).collect())
    }

    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
        Ok(self.state().nodes(workflow))
    }

    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
        Ok(self.state().relatives(|edge| (edge.child == job).then_some(edge.parent)))
    }

    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
        let mut children = self.state().relatives(|edge| (edge.parent == job).then_some(edge.child));
        children.truncate(limit);
        Ok(children)
    }

    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
        let mut state = self.state();
        let result = |id: JobId| Some((id, state.find(id)?.job.result.clone()?));
        Ok(jobs.into_iter().filter_map(result).collect())
    }
}
