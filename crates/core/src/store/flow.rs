//! Workflows, and which jobs wait for which.

use crate::{
    Change, Changed, JobId, Json, NewJob, NewWorkflow, Node, Relative, Workflow, WorkflowId, store::StoreResult,
};

port! {
    /// Workflows, and which jobs wait for which.
    pub trait FlowStore {
        /// Stores a workflow with its jobs, which name it.
        async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()>;

        /// Applies operators' wishes to a workflow's jobs, then stores jobs that take the places in it of those that
        /// they [run once more](crate::JobOptions::rerun_of), all in one transaction. Answers for each wish, in order.
        /// If another job has such a place by now, nothing is done.
        async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>>;

        /// The workflow with that id.
        async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>>;

        /// Workflows, latest first, from the one before `before`, at most `limit`.
        async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>>;

        /// The jobs of a workflow and its callbacks, by name.
        async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>>;

        /// The jobs that a job waits for or waited for, in the order of their ids.
        async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>>;

        /// The jobs that wait for a job, or waited for it, in the order of their ids, at most `limit`.
        async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>>;

        /// What jobs returned, those that did.
        async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>>;
    }
}
