//! What waits for what, and workflows.

use std::collections::BTreeMap;

use punctual_core::{
    JobId, NewJob, OnParentFailure, Status, StoreError, Verb, WorkflowId, change,
    flow::{self, Consequences, Edge, Fate, Next, Waiting},
};
use rusqlite::{OptionalExtension, Row, params};

use super::{
    change::replace,
    error::store_error,
    gates,
    places::standing,
    rows, statements as sql,
    tx::{EventLine, Tx},
};

/// The parents of a new job, by their places, and how it begins.
pub(crate) struct Family {
    pub(crate) next: Next,
    parents: Vec<(i64, JobId, Fate)>,
}

impl Family {
    /// How the parents of a new job stand.
    pub(crate) fn of(tx: &Tx<'_>, job: &NewJob) -> Result<Self, StoreError> {
        check_place(tx, job)?;
        if job.parents.is_empty() {
            return Ok(Self { next: Next::Start, parents: Vec::new() });
        }
        let (mut seqs, mut statuses) = (Vec::new(), Vec::new());
        for id in &job.parents {
            let known = find_parent(tx, *id).map_err(store_error)?;
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
fn check_place(tx: &Tx<'_>, job: &NewJob) -> Result<(), StoreError> {
    let Some((workflow, node)) = job.spec.place() else { return Ok(()) };
    match former(tx, workflow, node).map_err(store_error)? {
        Some((other, _)) if job.spec.extras.rerun_of != Some(other) => Err(StoreError::Superseded(other)),
        _ => Ok(()),
    }
}

/// The job that has a place in a workflow.
fn former(tx: &Tx<'_>, workflow: WorkflowId, node: &str) -> rusqlite::Result<Option<(JobId, Status)>> {
    let place = params![workflow.to_bytes(), node];
    let job = |row: &Row<'_>| Ok((JobId::from_bytes(row.get(0)?), rows::word(row, 1)?));
    tx.prepare(sql::NODE)?.query_row(place, job).optional()
}

fn find_parent(tx: &Tx<'_>, id: JobId) -> rusqlite::Result<Option<(i64, Status)>> {
    tx.prepare(sql::PARENT)?.query_row([id.to_bytes()], |row| Ok((row.get(0)?, rows::word(row, 1)?))).optional()
}

/// A new job joins its parents and its workflow.
pub(crate) fn join(tx: &mut Tx<'_>, seq: i64, job: &NewJob, family: &Family) -> rusqlite::Result<()> {
    let policy = job.spec.extras.on_parent_failure.as_str();
    for (parent, id, fate) in &family.parents {
        let succeeded = fate.succeeded();
        tx.prepare(sql::INSERT_DEPENDENCY)?.execute(params![parent, seq, policy, succeeded])?;
        if succeeded.is_none() {
            tx.prepare(sql::MARK_PARENT)?.execute([parent])?;
            tx.prepare(sql::MARK_RUNNING_PARENT)?.execute([id.to_bytes()])?;
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
fn take_place(tx: &mut Tx<'_>, seq: i64, job: &NewJob, workflow: WorkflowId, node: &str) -> rusqlite::Result<()> {
    let former = former(tx, workflow, node)?;
    tx.prepare(sql::INSERT_NODE)?.execute(params![workflow.to_bytes(), node, seq])?;
    if let (Some((_, former)), Some(workflow)) = (former, job.spec.workflow_id) {
        tx.count_end_of(workflow, former, Status::Waiting);
    }
    Ok(())
}

/// Lets what follows from the ends of jobs happen, until nothing follows any more.
pub(crate) fn follow(tx: &mut Tx<'_>) -> rusqlite::Result<()> {
    while !tx.ended.is_empty() {
        let ended = std::mem::take(&mut tx.ended);
        let (edges, waiting, seqs) = pending_children(tx, &ended)?;
        let statuses = ended.iter().map(|(id, (_, status))| (*id, *status)).collect();
        let Consequences { met, children } = flow::follow(&statuses, &edges, &waiting);
        let mut meet = tx.prepare(sql::MEET_DEPENDENCY)?;
        for (parent, child, succeeded) in met {
            meet.execute(params![ended[&parent].0, seqs[&child], succeeded])?;
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
fn pending_children(tx: &Tx<'_>, ended: &BTreeMap<JobId, (i64, Status)>) -> rusqlite::Result<Pending> {
    let (mut edges, mut waiting, mut seqs) = Pending::default();
    let mut pending = tx.prepare(sql::PENDING_CHILDREN)?;
    for (parent, (seq, _)) in ended {
        let mut rows = pending.query([seq])?;
        while let Some(row) = rows.next()? {
            let child = JobId::from_bytes(row.get(1)?);
            let policy: OnParentFailure = rows::word(row, 2)?;
            edges.push(Edge { parent: *parent, child, policy });
            waiting.insert(child, Waiting { on: row.get(3)?, any_failed: row.get(4)? });
            seqs.insert(child, row.get(0)?);
        }
    }
    Ok((edges, waiting, seqs))
}

fn wait(tx: &Tx<'_>, seq: i64, waiting: Waiting) -> rusqlite::Result<()> {
    tx.prepare(sql::WAIT_ON)?.execute(params![seq, waiting.on])?;
    if waiting.any_failed {
        tx.prepare(sql::NOTE_FAILURE)?.execute([seq])?;
    }
    Ok(())
}

/// A job has waited for its parents.
fn start(tx: &mut Tx<'_>, seq: i64) -> rusqlite::Result<()> {
    let (_, mut job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
    let (status, run_at) = flow::start_after_parents(job.run_at, tx.now);
    let last_event = tx.prepare(sql::LAST_EVENT)?.query_row([seq], |row| row.get(0))?;
    let event = tx.event(&mut tx.prepare(sql::INSERT_EVENT)?, seq, last_event, EventLine::plain(status, None))?;
    tx.prepare(sql::DELETE_WAITING)?.execute(params![job.run_at.as_micros(), seq])?;
    let row = params![seq, status.as_str(), run_at.as_micros(), tx.now.as_micros(), event];
    tx.prepare(sql::START_JOB)?.execute(row)?;
    job.run_at = run_at;
    if status == Status::Queued {
        gates::put(tx, standing(&job, seq))?;
    } else {
        tx.prepare(sql::INSERT_DUE)?.execute(params![run_at.as_micros(), seq])?;
    }
    tx.count(&job.spec.queue, &job.spec.name, Some(Status::Waiting), Some(status));
    tx.woke_work = true;
    Ok(())
}

fn cancel(tx: &mut Tx<'_>, seq: i64, reason: &str) -> rusqlite::Result<()> {
    let (seq, mut job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
    let before = job.clone();
    if change::apply(Verb::Cancel, &mut job, tx.now) == Ok(false) {
        replace(tx, seq, &before, &job, (None, Some(reason)))?;
    }
    Ok(())
}

/// Jobs are about to be removed: for those that wait for them, they are deleted.
pub(crate) fn lose(tx: &mut Tx<'_>, seqs: &[i64]) -> rusqlite::Result<()> {
    for seq in seqs {
        let (seq, job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
        if job.status != Status::Deleted {
            tx.ended(job.id, seq, job.status, Status::Deleted)?;
        }
    }
    follow(tx)
}

/// Forgets whom a job waited for, who waited for it, and its place in a workflow.
pub(crate) fn forget(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<()> {
    for forget in [sql::DELETE_DEPENDENCIES, sql::DELETE_DEPENDENTS, sql::DELETE_NODE] {
        tx.prepare(forget)?.execute([seq])?;
    }
    Ok(())
}
