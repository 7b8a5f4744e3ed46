//! Workflows, and dependencies between jobs.

use crate::{
    Change, Changed, JobId, Json, NewJob, NewWorkflow, Node, Relative, Workflow, WorkflowId, store::StoreResult,
};

port! {
    /// Workflows, and dependencies between jobs.
    pub trait FlowStore {
        /// Stores a workflow with its jobs, which refer to it.
        async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()>;

        /// Applies operator actions to a workflow's jobs, then stores jobs that replace the ones that they
        /// [rerun](crate::JobOptions::rerun_of), all in one transaction. Returns a result for each action, in order. If
        /// a job was replaced meanwhile by another one, nothing is changed.
        async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>>;

        /// The workflow with this id.
        async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>>;

        /// Workflows, latest first, from the one before `before`, at most `limit`.
        async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>>;

        /// The jobs of a workflow and its callbacks, by name.
        async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>>;

        /// The current and former parents of a job, in the order of their ids.
        async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>>;

        /// The jobs that wait or waited for a job, in the order of their ids, at most `limit`.
        async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>>;

        /// The results of jobs; jobs without a result are omitted.
        async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>>;
    }
}
