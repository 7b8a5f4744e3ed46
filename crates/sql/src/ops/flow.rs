//! Dependencies between jobs, and workflows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    JobId, NewJob, OnParentFailure, Status, StoreError, StoreResult, Verb, WorkflowId, change,
    effects::{Effects, Phase},
    flow::{self, Consequences, Edge, Fate, Next, Waiting},
};

use super::{
    change::replace,
    effects::{self, IndexedJob},
    read,
    rows::{self, JobRow},
    statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::params;

/// The stored jobs that new jobs refer to.
pub(crate) struct Relatives<'j> {
    /// The jobs that they depend on.
    parents: HashMap<JobId, Parent>,
    /// The jobs whose workflow nodes they take over.
    former: HashMap<(WorkflowId, &'j str), (JobId, Status)>,
}

/// A parent of new jobs: its row number and status, if known.
#[derive(Default)]
struct Parent {
    seq: Option<i64>,
    status: Option<Status>,
}

impl<'j> Relatives<'j> {
    /// Looks up the stored jobs that these new jobs refer to. The new jobs must not share workflow nodes.
    pub(crate) fn of(tx: &Tx<'_>, jobs: &'j [NewJob]) -> StoreResult<Self> {
        let ids: BTreeSet<JobId> = jobs.iter().flat_map(|job| job.parents.iter().copied()).collect();
        let ids: Vec<JobId> = ids.into_iter().collect();
        let mut parents: HashMap<_, _> = ids.iter().map(|id| (*id, Parent::default())).collect();
        let stored = tx.db.all_each(
            sql::PARENT,
            &mut |row| ids.iter().try_for_each(|id| row(params![id.to_bytes()])),
            |row| Ok(Parent { seq: Some(row.get(0)?), status: Some(rows::word(row, 1)?) }),
        )?;
        parents.extend(stored.into_iter().map(|(index, parent)| (ids[index], parent)));
        let nodes: Vec<_> = jobs.iter().filter_map(|job| job.spec.workflow_node()).collect();
        let former = tx.db.all_each(
            sql::NODE,
            &mut |row| nodes.iter().try_for_each(|(workflow, node)| row(params![workflow.to_bytes(), node])),
            |row| Ok((JobId::from_bytes(row.get(0)?), rows::word(row, 1)?)),
        )?;
        let former = former.into_iter().map(|(index, former)| (nodes[index], former)).collect();
        Ok(Self { parents, former })
    }

    /// Records the initial status of a new job, which later ones may depend on.
    pub(crate) fn begins(&mut self, id: JobId, status: Status) {
        if let Some(parent) = self.parents.get_mut(&id) {
            parent.status.get_or_insert(status);
        }
    }

    /// Records the row number of a new job, unless it was stored before.
    pub(crate) fn is_stored(&mut self, id: JobId, seq: Option<i64>) {
        if let Some(parent) = self.parents.get_mut(&id) {
            parent.seq = parent.seq.or(seq);
        }
    }

    /// Refuses a job that would take over the node of a job other than the one that it reruns.
    fn check_node(&self, job: &NewJob) -> StoreResult<()> {
        match job.spec.workflow_node().and_then(|node| self.former.get(&node)) {
            Some((other, _)) if job.spec.options.rerun_of != Some(*other) => Err(StoreError::Superseded(*other)),
            _ => Ok(()),
        }
    }
}

/// The parents of a new job, and its first step.
pub(crate) struct Family {
    pub(crate) next: Next,
    parents: Vec<(JobId, Fate)>,
}

impl Family {
    /// Determines the state of a new job's parents.
    pub(crate) fn of(relatives: &Relatives<'_>, job: &NewJob) -> StoreResult<Self> {
        relatives.check_node(job)?;
        let status = |id: JobId| relatives.parents.get(&id).and_then(|parent| parent.status);
        let (next, fates) = flow::begin_with(job.spec.options.on_parent_failure, &job.parents, status)?;
        Ok(Self { next, parents: job.parents.iter().copied().zip(fates).collect() })
    }

    /// How many parents the job waits for, and whether any of them failed.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting::of(self.parents.iter().map(|(_, fate)| *fate))
    }

    /// Adds the new job to its parents' dependents and to its workflow.
    pub(crate) fn join(&self, tx: &mut Tx<'_>, seq: i64, job: &NewJob, relatives: &Relatives<'_>) -> StoreResult<()> {
        let policy = job.spec.options.on_parent_failure.as_str();
        for (id, fate) in &self.parents {
            let parent =
                relatives.parents.get(id).and_then(|parent| parent.seq).ok_or(StoreError::UnknownParent(*id))?;
            let succeeded = fate.succeeded();
            tx.write(sql::INSERT_DEPENDENCY, params![parent, seq, policy, succeeded])?;
            if succeeded.is_none() {
                tx.write(sql::MARK_PARENT, params![parent])?;
                tx.write(sql::MARK_RUNNING_PARENT, params![id.to_bytes()])?;
            }
        }
        if let Some((workflow, node)) = job.spec.workflow_node() {
            tx.write(sql::INSERT_NODE, params![workflow.to_bytes(), node, seq])?;
            // The job may take the node over from a finished one, whose end no longer counts.
            if let (Some((_, former)), Some(own)) = (relatives.former.get(&(workflow, node)), job.spec.workflow_id) {
                tx.count_end_of(own, *former, Status::Waiting);
            }
        }
        if let Next::Cancel(reason) = &self.next {
            read::known(tx.db, &[seq])?.iter().try_for_each(|known| cancel(tx, known, reason))?;
        }
        Ok(())
    }
}

/// Applies the consequences of finished jobs until there are none left.
pub(crate) fn follow(tx: &mut Tx<'_>) -> StoreResult<()> {
    loop {
        tx.count_ends()?;
        if tx.ended.is_empty() {
            return Ok(());
        }
        tx.job_db.be_alone()?;
        let ended = std::mem::take(&mut tx.ended);
        let (edges, waiting, seqs) = pending_children(tx, &ended)?;
        let statuses = ended.iter().map(|(id, (_, status))| (*id, *status)).collect();
        let Consequences { met, children } = flow::follow(&statuses, &edges, &waiting);
        for (parent, child, succeeded) in met {
            tx.write(sql::MEET_DEPENDENCY, params![ended[&parent].0, seqs[&child], succeeded])?;
        }
        let mut going_on = Vec::new();
        for (child, next) in children {
            match next {
                Next::Wait(waiting) => wait(tx, seqs[&child], waiting)?,
                next => going_on.push((seqs[&child], next)),
            }
        }
        go_on(tx, &going_on)?;
    }
}

/// Starts or cancels jobs whose dependencies are settled.
fn go_on(tx: &mut Tx<'_>, children: &[(i64, Next)]) -> StoreResult<()> {
    let seqs: Vec<i64> = children.iter().map(|(seq, _)| *seq).collect();
    tx.expect_events(seqs.len())?;
    for (known, (_, next)) in read::known(tx.db, &seqs)?.into_iter().zip(children) {
        match next {
            Next::Cancel(reason) => cancel(tx, &known, reason)?,
            _ => start(tx, known)?,
        }
    }
    Ok(())
}

type Pending = (Vec<Edge>, BTreeMap<JobId, Waiting>, BTreeMap<JobId, i64>);

/// The jobs that depend on these finished jobs, with their row numbers.
fn pending_children(tx: &Tx<'_>, ended: &BTreeMap<JobId, (i64, Status)>) -> StoreResult<Pending> {
    let (mut edges, mut waiting, mut seqs) = Pending::default();
    let parents: Vec<_> = ended.iter().map(|(id, (seq, _))| (*id, *seq)).collect();
    let found = tx.db.all_each(
        sql::PENDING_CHILDREN,
        &mut |row| parents.iter().try_for_each(|(_, seq)| row(params![seq])),
        |row| {
            let child = (row.get(0)?, JobId::from_bytes(row.get(1)?));
            let policy: OnParentFailure = rows::word(row, 2)?;
            Ok((child, policy, Waiting { on: row.get(3)?, any_failed: row.get(4)? }))
        },
    )?;
    for (index, ((seq, child), policy, waits)) in found {
        edges.push(Edge { parent: parents[index].0, child, policy });
        waiting.insert(child, waits);
        seqs.insert(child, seq);
    }
    Ok((edges, waiting, seqs))
}

fn wait(tx: &Tx<'_>, seq: i64, waiting: Waiting) -> StoreResult<()> {
    tx.write(sql::WAIT_ON, params![seq, waiting.on])?;
    if waiting.any_failed {
        tx.write(sql::RECORD_PARENT_FAILURE, params![seq])?;
    }
    Ok(())
}

/// Starts a job whose parents are done.
fn start(tx: &mut Tx<'_>, JobRow { seq, job, last_event }: JobRow) -> StoreResult<()> {
    let before = Phase::of(&job);
    let after = before.after_parents(tx.now);
    let effects = Effects::changed(before, after);
    let line = EventLine::plain(after.status, None);
    let event = effects::write_events(tx, (seq, last_event), &effects, line)?;
    let (status, run_at) = (after.status.as_str(), after.run_at.as_micros());
    tx.write(sql::START_JOB, params![seq, status, run_at, tx.now.as_micros(), event])?;
    effects::apply(tx, &IndexedJob::of(&job, seq), &effects)?;
    tx.new_work = true;
    Ok(())
}

fn cancel(tx: &mut Tx<'_>, known: &JobRow, reason: &str) -> StoreResult<()> {
    let mut job = known.job.clone();
    if change::apply(Verb::Cancel, &mut job, tx.now) == Ok(false) {
        replace(tx, known, &job, (None, Some(reason)))?;
    }
    Ok(())
}

/// Treats jobs that are about to be removed as deleted, for the jobs that depend on them.
pub(crate) fn lose(tx: &mut Tx<'_>, jobs: &[JobRow]) -> StoreResult<()> {
    for JobRow { seq, job, .. } in jobs {
        // A job that is removed together with its parent must not be cancelled, and counted, by the parent's end too.
        tx.write(sql::DELETE_DEPENDENCIES, params![seq])?;
        if let Some(status) = Effects::removed(Phase::of(job)).ended {
            tx.ended(job.id, *seq, job.status, status);
        }
    }
    follow(tx)
}

/// Removes the dependents of lost jobs, and their workflow nodes.
pub(crate) fn forget(tx: &Tx<'_>, seqs: &[i64]) -> StoreResult<()> {
    for forget in [sql::DELETE_DEPENDENTS, sql::DELETE_NODE] {
        seqs.iter().try_for_each(|seq| tx.write(forget, params![seq]))?;
    }
    Ok(())
}
