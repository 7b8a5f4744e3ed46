//! Workflows: submits, reruns and reads them.

use std::collections::{BTreeMap, HashMap};

use punctual_core::{
    Change, Changed, Ends, JobId, Json, NewJob, NewWorkflow, Node, Relative, Status, StoreError, Workflow, WorkflowId,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    change,
    core::Core,
    enqueue::{self, Enqueue, Ids},
    error,
    read::rows_of,
    rows, statements as sql,
    value::{Uuid, job_id, uuid},
};

/// Maximum number of restarts of a transaction because others changed its rows.
const TRIES_MAX: usize = 20;

/// Stores a workflow with its jobs.
pub(crate) async fn submit(store: &Core, workflow: &NewWorkflow, jobs: &[NewJob]) -> Result<(), StoreError> {
    let error = |error| store.sessions.error(error);
    enqueue::prepare(store, jobs).await?;
    for _ in 0..TRIES_MAX {
        match try_submit(store, workflow, jobs).await {
            Err(refused)
                if error::is_concurrent_change(&refused)
                    || error::is_retryable(&refused)
                    || error::is_partition_conflict(&refused) => {}
            submitted => {
                submitted.map_err(error)?;
                enqueue::announce(store, jobs, store.dispatched_by());
                return Ok(());
            }
        }
    }
    Err(StoreError::Busy { waited_ms: 0 })
}

async fn try_submit(store: &Core, workflow: &NewWorkflow, jobs: &[NewJob]) -> sqlx::Result<()> {
    let mut unit = store.sessions.several().await?;
    let submitted = submit_in(store, &mut unit, workflow, jobs).await;
    unit.ended(submitted).await
}

async fn submit_in(
    store: &Core,
    connection: &mut PgConnection,
    workflow: &NewWorkflow,
    jobs: &[NewJob],
) -> sqlx::Result<()> {
    let total = jobs.iter().filter(|job| job.spec.workflow_id == Some(workflow.id)).count();
    sqlx::query(*sql::INSERT_WORKFLOW)
        .bind(store.sessions.clock())
        .bind(Uuid::from_u128(workflow.id.to_bits()))
        .bind(&workflow.name)
        .bind(&workflow.created_by)
        .bind(total as i32)
        .execute(&mut *connection)
        .await?;
    let enqueue = Enqueue { store, ids: Ids::New, dispatched_by: store.dispatched_by() };
    enqueue.run(connection, jobs).await.map(drop)
}

/// Applies operators' changes, then stores jobs.
pub(crate) async fn resubmit(store: &Core, changes: &[Change], jobs: &[NewJob]) -> Result<Vec<Changed>, StoreError> {
    enqueue::prepare(store, jobs).await?;
    let changed = change::change_and_enqueue(store, changes, jobs).await?;
    enqueue::announce(store, jobs, store.dispatched_by());
    Ok(changed)
}

pub(crate) async fn workflow(store: &Core, id: WorkflowId) -> sqlx::Result<Option<Workflow>> {
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query(*sql::WORKFLOW).bind(Uuid::from_u128(id.to_bits()));
    let row = query.fetch_optional(&mut *unit).await?;
    unit.done().await?;
    row.as_ref().map(workflow_of).transpose()
}

pub(crate) async fn workflows(store: &Core, before: Option<WorkflowId>, limit: usize) -> sqlx::Result<Vec<Workflow>> {
    let before = before.map_or(u128::MAX, WorkflowId::to_bits);
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query(*sql::WORKFLOWS).bind(Uuid::from_u128(before)).bind(limit as i64);
    let rows = query.fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(workflow_of).collect()
}

fn workflow_of(row: &PgRow) -> sqlx::Result<Workflow> {
    Ok(Workflow {
        id: WorkflowId::from_bits(row.try_get::<Uuid, _>(0)?.as_u128()),
        name: row.try_get(1)?,
        created_by: row.try_get(2)?,
        created_at: rows::instant(row, 3)?,
        updated_at: rows::instant(row, 4)?,
        ends: Ends {
            total: rows::number(row, 5)?,
            succeeded: rows::number(row, 6)?,
            dead: rows::number(row, 7)?,
            cancelled: rows::number(row, 8)?,
        },
    })
}

/// The names and states of jobs, by id.
async fn names_and_states(store: &Core, ids: &[JobId]) -> sqlx::Result<HashMap<JobId, (String, Relative)>> {
    let rows = rows_of(store, *sql::RELATIVES, ids).await?;
    let found = |row: &PgRow| {
        let (id, status): (_, Status) = (job_id(row.try_get(0)?), rows::word(row, 3)?);
        Ok((id, (row.try_get(1)?, Relative { id, node: row.try_get(2)?, status })))
    };
    rows.iter().map(found).collect()
}

pub(crate) async fn nodes(store: &Core, workflow: WorkflowId) -> sqlx::Result<Vec<Node>> {
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query_as::<_, (String, Uuid)>(*sql::NODES).bind(Uuid::from_u128(workflow.to_bits()));
    let nodes: Vec<(String, JobId)> =
        query.fetch_all(&mut *unit).await?.into_iter().map(|(node, id)| (node, job_id(id))).collect();
    unit.done().await?;
    let ids: Vec<JobId> = nodes.iter().map(|(_, id)| *id).collect();
    let mut parents = parents_of(store, &ids).await?;
    let mut found = names_and_states(store, &ids).await?;
    let node = |(node, id): (String, JobId)| {
        let (name, Relative { status, .. }) = found.remove(&id)?;
        Some(Node { node, id, name, status, parents: parents.remove(&id).unwrap_or_default() })
    };
    Ok(nodes.into_iter().filter_map(node).collect())
}

/// The parents of jobs, including those that have ended.
async fn parents_of(store: &Core, ids: &[JobId]) -> sqlx::Result<BTreeMap<JobId, Vec<JobId>>> {
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query_as::<_, (Uuid, Uuid)>(*sql::PARENTS_OF);
    let rows = query.bind(ids.iter().map(|id| uuid(*id)).collect::<Vec<_>>()).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let mut parents = BTreeMap::<JobId, Vec<JobId>>::new();
    for (child, parent) in rows {
        parents.entry(job_id(child)).or_default().push(job_id(parent));
    }
    parents.values_mut().for_each(|parents| parents.sort_unstable());
    Ok(parents)
}

pub(crate) async fn parents(store: &Core, job: JobId) -> sqlx::Result<Vec<Relative>> {
    let ids = parents_of(store, &[job]).await?.remove(&job).unwrap_or_default();
    relatives(store, &ids).await
}

pub(crate) async fn children(store: &Core, job: JobId, limit: usize) -> sqlx::Result<Vec<Relative>> {
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query_scalar::<_, Uuid>(*sql::CHILDREN_OF).bind(uuid(job)).bind(limit as i64);
    let ids: Vec<JobId> = query.fetch_all(&mut *unit).await?.into_iter().map(job_id).collect();
    unit.done().await?;
    relatives(store, &ids).await
}

async fn relatives(store: &Core, ids: &[JobId]) -> sqlx::Result<Vec<Relative>> {
    let mut found = names_and_states(store, ids).await?;
    Ok(ids.iter().filter_map(|id| found.remove(id)).map(|(_, relative)| relative).collect())
}

pub(crate) async fn results(store: &Core, ids: &[JobId]) -> sqlx::Result<Vec<(JobId, Json)>> {
    let rows = rows_of(store, *sql::RESULTS, ids).await?;
    let result = |row: &PgRow| Ok((job_id(row.try_get(0)?), Json::trusted(row.try_get::<String, _>(1)?)));
    let mut results: HashMap<JobId, Json> = rows.iter().map(result).collect::<sqlx::Result<_>>()?;
    Ok(ids.iter().filter_map(|id| Some((*id, results.remove(id)?))).collect())
}
