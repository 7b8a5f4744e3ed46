//! Workflows, and dependencies between jobs.

use punctual_core::{
    Change, Changed, Ends, JobId, Json, NewJob, NewWorkflow, Node, Relative, StoreResult, Workflow, WorkflowId,
};

use super::{change::change, enqueue::enqueue, flow::follow, read::seq_of, rows, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

/// Stores a workflow with its jobs.
pub(crate) fn submit(tx: &mut Tx<'_>, workflow: &NewWorkflow, jobs: &[NewJob]) -> StoreResult<()> {
    let total = jobs.iter().filter(|job| job.spec.workflow_id == Some(workflow.id)).count();
    tx.write(
        sql::INSERT_WORKFLOW,
        params![workflow.id.to_bytes(), workflow.name, workflow.created_by, tx.now.as_micros(), total],
    )?;
    enqueue(tx, jobs).map(drop)
}

/// Applies operators' changes, then stores jobs.
pub(crate) fn resubmit(tx: &mut Tx<'_>, changes: &[Change], jobs: &[NewJob]) -> StoreResult<Vec<Changed>> {
    let changed = change(tx, changes)?;
    // The consequences of the changes must be applied before new jobs take over the nodes of the changed ones.
    follow(tx)?;
    enqueue(tx, jobs)?;
    Ok(changed)
}

pub(crate) fn workflow(db: &dyn Db, id: WorkflowId) -> StoreResult<Option<Workflow>> {
    db.one(sql::WORKFLOW, params![id.to_bytes()], workflow_of)
}

pub(crate) fn workflows(db: &dyn Db, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
    let before = before.unwrap_or(WorkflowId::from_bits(u128::MAX)).to_bytes();
    db.all(sql::WORKFLOWS, params![before, limit as i64], workflow_of)
}

fn workflow_of(row: &dyn Row) -> StoreResult<Workflow> {
    Ok(Workflow {
        id: WorkflowId::from_bytes(row.get(0)?),
        name: row.get(1)?,
        created_by: row.get(2)?,
        created_at: rows::instant(row, 3)?,
        updated_at: rows::instant(row, 4)?,
        ends: Ends { total: row.get(5)?, succeeded: row.get(6)?, dead: row.get(7)?, cancelled: row.get(8)? },
    })
}

pub(crate) fn nodes(db: &dyn Db, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
    let mut nodes = db.all(sql::NODES, params![workflow.to_bytes()], |row| {
        let (id, status) = (JobId::from_bytes(row.get(1)?), rows::word(row, 3)?);
        Ok((row.get(4)?, Node { node: row.get(0)?, id, name: row.get(2)?, status, parents: Vec::new() }))
    })?;
    let parents = db.all_each(
        sql::PARENTS_OF,
        &mut |row| nodes.iter().try_for_each(|(seq, _): &(i64, Node)| row(params![seq])),
        |row| row.get(0).map(JobId::from_bytes),
    )?;
    for (index, parent) in parents {
        nodes[index].1.parents.push(parent);
    }
    nodes.iter_mut().for_each(|(_, node)| node.parents.sort_unstable());
    Ok(nodes.into_iter().map(|(_, node)| node).collect())
}

fn relative(row: &dyn Row) -> StoreResult<Relative> {
    Ok(Relative { id: JobId::from_bytes(row.get(0)?), node: row.get(1)?, status: rows::word(row, 2)? })
}

pub(crate) fn parents(db: &dyn Db, job: JobId) -> StoreResult<Vec<Relative>> {
    let Some(seq) = seq_of(db, job)? else { return Ok(Vec::new()) };
    let mut parents = db.all(sql::PARENTS, params![seq], relative)?;
    parents.sort_unstable();
    Ok(parents)
}

pub(crate) fn children(db: &dyn Db, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
    let Some(seq) = seq_of(db, job)? else { return Ok(Vec::new()) };
    let mut children = db.all(sql::CHILDREN, params![seq, limit], relative)?;
    children.sort_unstable();
    Ok(children)
}

pub(crate) fn results(db: &dyn Db, jobs: &[JobId]) -> StoreResult<Vec<(JobId, Json)>> {
    let results =
        db.all_each(sql::RESULT, &mut |row| jobs.iter().try_for_each(|id| row(params![id.to_bytes()])), |row| {
            row.get::<Option<Box<str>>>(0)
        })?;
    Ok(results.into_iter().filter_map(|(index, text)| Some((jobs[index], Json::trusted(text?)))).collect())
}
