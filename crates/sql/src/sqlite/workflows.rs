//! Workflows, and who waits for whom.

use punctual_core::{
    Change, Changed, Ends, JobId, Json, NewJob, NewWorkflow, Node, Relative, StoreError, Workflow, WorkflowId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    change::change, enqueue::enqueue, error::store_error, flow::follow, read::seq_of, rows, statements as sql, tx::Tx,
};

/// Stores a workflow with its jobs.
pub(crate) fn submit(tx: &mut Tx<'_>, workflow: &NewWorkflow, jobs: &[NewJob]) -> Result<(), StoreError> {
    let total = jobs.iter().filter(|job| job.spec.workflow_id == Some(workflow.id)).count();
    let row = params![workflow.id.to_bytes(), workflow.name, workflow.created_by, tx.now.as_micros(), total];
    tx.prepare(sql::INSERT_WORKFLOW).and_then(|mut insert| insert.execute(row)).map_err(store_error)?;
    enqueue(tx, jobs).map(drop)
}

/// Applies operators' wishes, then stores jobs.
pub(crate) fn resubmit(tx: &mut Tx<'_>, changes: &[Change], jobs: &[NewJob]) -> Result<Vec<Changed>, StoreError> {
    let changed = change(tx, changes)?;
    // What was changed must have had its consequences before others take its place.
    follow(tx).map_err(store_error)?;
    enqueue(tx, jobs)?;
    Ok(changed)
}

pub(crate) fn workflow(connection: &Connection, id: WorkflowId) -> rusqlite::Result<Option<Workflow>> {
    connection.prepare_cached(sql::WORKFLOW)?.query_row([id.to_bytes()], workflow_of).optional()
}

pub(crate) fn workflows(
    connection: &Connection,
    before: Option<WorkflowId>,
    limit: usize,
) -> rusqlite::Result<Vec<Workflow>> {
    let before = before.unwrap_or(WorkflowId::from_bits(u128::MAX)).to_bytes();
    connection.prepare_cached(sql::WORKFLOWS)?.query_map(params![before, limit as i64], workflow_of)?.collect()
}

fn workflow_of(row: &Row<'_>) -> rusqlite::Result<Workflow> {
    Ok(Workflow {
        id: WorkflowId::from_bytes(row.get(0)?),
        name: row.get(1)?,
        created_by: row.get(2)?,
        created_at: rows::instant(row, 3)?,
        updated_at: rows::instant(row, 4)?,
        ends: Ends { total: row.get(5)?, succeeded: row.get(6)?, dead: row.get(7)?, cancelled: row.get(8)? },
    })
}

pub(crate) fn nodes(connection: &Connection, workflow: WorkflowId) -> rusqlite::Result<Vec<Node>> {
    let mut parents_of = connection.prepare_cached(sql::PARENTS_OF)?;
    let mut nodes = connection.prepare_cached(sql::NODES)?;
    let rows = nodes.query_map([workflow.to_bytes()], |row| {
        let seq: i64 = row.get(4)?;
        let parents = parents_of.query_map([seq], |row| row.get(0).map(JobId::from_bytes))?;
        let mut parents = parents.collect::<rusqlite::Result<Vec<_>>>()?;
        parents.sort_unstable();
        Ok(Node {
            node: row.get(0)?,
            id: JobId::from_bytes(row.get(1)?),
            name: row.get(2)?,
            status: rows::word(row, 3)?,
            parents,
        })
    })?;
    rows.collect()
}

fn relative(row: &Row<'_>) -> rusqlite::Result<Relative> {
    Ok(Relative { id: JobId::from_bytes(row.get(0)?), node: row.get(1)?, status: rows::word(row, 2)? })
}

pub(crate) fn parents(connection: &Connection, job: JobId) -> rusqlite::Result<Vec<Relative>> {
    let Some(seq) = seq_of(connection, job)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(sql::PARENTS)?;
    let mut parents = statement.query_map([seq], relative)?.collect::<rusqlite::Result<Vec<_>>>()?;
    parents.sort_unstable();
    Ok(parents)
}

pub(crate) fn children(connection: &Connection, job: JobId, limit: usize) -> rusqlite::Result<Vec<Relative>> {
    let Some(seq) = seq_of(connection, job)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(sql::CHILDREN)?;
    let mut children =
        statement.query_map(params![seq, limit as i64], relative)?.collect::<rusqlite::Result<Vec<_>>>()?;
    children.sort_unstable();
    Ok(children)
}

pub(crate) fn results(connection: &Connection, jobs: &[JobId]) -> rusqlite::Result<Vec<(JobId, Json)>> {
    let mut statement = connection.prepare_cached(sql::RESULT)?;
    let mut results = Vec::new();
    for id in jobs {
        let text: Option<Option<Box<str>>> = statement.query_row([id.to_bytes()], |row| row.get(0)).optional()?;
        results.extend(text.flatten().map(|text| (*id, Json::trusted(text))));
    }
    Ok(results)
}
