//! What waits for what, and workflows.

use std::collections::BTreeMap;

use punctual_core::{
    JobId, NewJob, OnParentFailure, Status, StoreError, StoreResult, Verb, WorkflowId, change,
    flow::{self, Consequences, Edge, Fate, Next, Waiting},
};

use super::{
    change::replace,
    gates,
    places::standing,
    rows, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::{Row, params};

/// The parents of a new job, by their places, and how it begins.
pub(crate) struct Family {
    pub(crate) next: Next,
    parents: Vec<(i64, JobId, Fate)>,
}

impl Family {
    /// How the parents of a new job stand.
    pub(crate) fn of(tx: &Tx<'_>, job: &NewJob) -> StoreResult<Self> {
        check_place(tx, job)?;
        if job.parents.is_empty() {
            return Ok(Self { next: Next::Start, parents: Vec::new() });
        }
        let (mut seqs, mut statuses) = (Vec::new(), Vec::new());
        for id in &job.parents {
            let known = find_parent(tx, *id)?;
            let (seq, status) =
                known.filter(|(_, status)| *status != Status::Deleted).ok_or(StoreError::UnknownParent(*id))?;
            seqs.push(seq);
            statuses.push((*id, status));
        }
        let (next, fates) = flow::begin(job.spec.extras.on_parent_failure, &statuses);
        let parents = seqs.into_iter().zip(&job.parents).zip(fates).map(|((seq, id), fate)| (seq, *id, fate)).collect();
        Ok(Self { next, parents })
    }

    /// How the job stands with its parents.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting::of(self.parents.iter().map(|(_, _, fate)| *fate))
    }
}

/// Refuses a job that would take the place of another one than it runs once more.
fn check_place(tx: &Tx<'_>, job: &NewJob) -> StoreResult<()> {
    let Some((workflow, node)) = job.spec.place() else { return Ok(()) };
    match former(tx, workflow, node)? {
        Some((other, _)) if job.spec.extras.rerun_of != Some(other) => Err(StoreError::Superseded(other)),
        _ => Ok(()),
    }
}

/// The job that has a place in a workflow.
fn former(tx: &Tx<'_>, workflow: WorkflowId, node: &str) -> StoreResult<Option<(JobId, Status)>> {
    let job = |row: &dyn Row| Ok((JobId::from_bytes(row.get(0)?), rows::word(row, 1)?));
    tx.db.one(sql::NODE, params![workflow.to_bytes(), node], job)
}

fn find_parent(tx: &Tx<'_>, id: JobId) -> StoreResult<Option<(i64, Status)>> {
    tx.db.one(sql::PARENT, params![id.to_bytes()], |row| Ok((row.get(0)?, rows::word(row, 1)?)))
}

/// A new job joins its parents and its workflow.
pub(crate) fn join(tx: &mut Tx<'_>, seq: i64, job: &NewJob, family: &Family) -> StoreResult<()> {
    let policy = job.spec.extras.on_parent_failure.as_str();
    for (parent, id, fate) in &family.parents {
        let succeeded = fate.succeeded();
        tx.write(sql::INSERT_DEPENDENCY, params![parent, seq, policy, succeeded])?;
        if succeeded.is_none() {
            tx.write(sql::MARK_PARENT, params![parent])?;
            tx.write(sql::MARK_RUNNING_PARENT, params![id.to_bytes()])?;
        }
    }
    if let Some((workflow, node)) = job.spec.place() {
        take_place(tx, seq, job, workflow, node)?;
    }
    if let Next::Cancel(reason) = &family.next {
        cancel(tx, seq, reason)?;
    }
    Ok(())
}

/// A job takes its place in a workflow, perhaps that of another.
fn take_place(tx: &mut Tx<'_>, seq: i64, job: &NewJob, workflow: WorkflowId, node: &str) -> StoreResult<()> {
    let former = former(tx, workflow, node)?;
    tx.write(sql::INSERT_NODE, params![workflow.to_bytes(), node, seq])?;
    if let (Some((_, former)), Some(workflow)) = (former, job.spec.workflow_id) {
        tx.count_end_of(workflow, former, Status::Waiting);
    }
    Ok(())
}

/// Lets what follows from the ends of jobs happen, until nothing follows any more.
pub(crate) fn follow(tx: &mut Tx<'_>) -> StoreResult<()> {
    while !tx.ended.is_empty() {
        tx.db.be_alone()?;
        let ended = std::mem::take(&mut tx.ended);
        let (edges, waiting, seqs) = pending_children(tx, &ended)?;
        let statuses = ended.iter().map(|(id, (_, status))| (*id, *status)).collect();
        let Consequences { met, children } = flow::follow(&statuses, &edges, &waiting);
        for (parent, child, succeeded) in met {
            tx.write(sql::MEET_DEPENDENCY, params![ended[&parent].0, seqs[&child], succeeded])?;
        }
        for (child, next) in children {
            match next {
                Next::Wait(waiting) => wait(tx, seqs[&child], waiting)?,
                Next::Start => start(tx, seqs[&child])?,
                Next::Cancel(reason) => cancel(tx, seqs[&child], &reason)?,
            }
        }
    }
    Ok(())
}

type Pending = (Vec<Edge>, BTreeMap<JobId, Waiting>, BTreeMap<JobId, i64>);

/// Who waits for jobs that have ended, and where they stand in their table.
fn pending_children(tx: &Tx<'_>, ended: &BTreeMap<JobId, (i64, Status)>) -> StoreResult<Pending> {
    let (mut edges, mut waiting, mut seqs) = Pending::default();
    for (parent, (seq, _)) in ended {
        tx.db.read(sql::PENDING_CHILDREN, params![seq], &mut |row| {
            let child = JobId::from_bytes(row.get(1)?);
            let policy: OnParentFailure = rows::word(row, 2)?;
            edges.push(Edge { parent: *parent, child, policy });
            waiting.insert(child, Waiting { on: row.get(3)?, any_failed: row.get(4)? });
            seqs.insert(child, row.get(0)?);
            Ok(true)
        })?;
    }
    Ok((edges, waiting, seqs))
}

fn wait(tx: &Tx<'_>, seq: i64, waiting: Waiting) -> StoreResult<()> {
    tx.write(sql::WAIT_ON, params![seq, waiting.on])?;
    if waiting.any_failed {
        tx.write(sql::NOTE_FAILURE, params![seq])?;
    }
    Ok(())
}

/// A job has waited for its parents.
fn start(tx: &mut Tx<'_>, seq: i64) -> StoreResult<()> {
    let (_, mut job) = tx.db.only(sql::GET_BY_SEQ, params![seq], rows::job)?;
    let (status, run_at) = flow::start_after_parents(job.run_at, tx.now);
    let last_event = tx.db.only(sql::LAST_EVENT, params![seq], |row| row.get(0))?;
    let event = tx.event(seq, last_event, EventLine::plain(status, None))?;
    tx.write(sql::DELETE_WAITING, params![job.run_at.as_micros(), seq])?;
    tx.write(sql::START_JOB, params![seq, status.as_str(), run_at.as_micros(), tx.now.as_micros(), event])?;
    job.run_at = run_at;
    if status == Status::Queued {
        gates::put(tx, standing(&job, seq))?;
    } else {
        tx.write(sql::INSERT_DUE, params![run_at.as_micros(), seq])?;
    }
    tx.count(&job.spec.queue, &job.spec.name, Some(Status::Waiting), Some(status));
    tx.woke_work = true;
    Ok(())
}

fn cancel(tx: &mut Tx<'_>, seq: i64, reason: &str) -> StoreResult<()> {
    let (seq, mut job) = tx.db.only(sql::GET_BY_SEQ, params![seq], rows::job)?;
    let before = job.clone();
    if change::apply(Verb::Cancel, &mut job, tx.now) == Ok(false) {
        replace(tx, seq, &before, &job, (None, Some(reason)))?;
    }
    Ok(())
}

/// Jobs are about to be removed: for those that wait for them, they are deleted.
pub(crate) fn lose(tx: &mut Tx<'_>, seqs: &[i64]) -> StoreResult<()> {
    for seq in seqs {
        let (seq, job) = tx.db.only(sql::GET_BY_SEQ, params![seq], rows::job)?;
        if job.status != Status::Deleted {
            tx.ended(job.id, seq, job.status, Status::Deleted)?;
        }
    }
    follow(tx)
}

/// Forgets whom a job waited for, who waited for it, and its place in a workflow.
pub(crate) fn forget(tx: &Tx<'_>, seq: i64) -> StoreResult<()> {
    for forget in [sql::DELETE_DEPENDENCIES, sql::DELETE_DEPENDENTS, sql::DELETE_NODE] {
        tx.write(forget, params![seq])?;
    }
    Ok(())
}
