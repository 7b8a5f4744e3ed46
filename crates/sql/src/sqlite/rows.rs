//! Between rows and the domain's types.

use std::time::Duration;

use punctual_core::{Extras, Fault, Job, JobId, Json, Progress, Spec, StoreError, Timestamp, WorkerId, WorkflowId};
use rusqlite::{Row, types::Type};

/// A row of `punctual_jobs_now`, as a job and its place in the table.
pub(crate) fn job(row: &Row<'_>) -> rusqlite::Result<(i64, Job)> {
    let spec = Spec {
        name: row.get(2)?,
        queue: row.get(3)?,
        payload: Json::trusted(row.get::<_, Box<str>>(25)?),
        priority: row.get(5)?,
        max_attempts: row.get(11)?,
        timeout: Duration::from_millis(row.get(12)?),
        user_id: row.get(13)?,
        correlation_id: row.get(14)?,
        unique_key: row.get(15)?,
        workflow_id: row.get::<_, Option<[u8; 16]>>(16)?.map(WorkflowId::from_bytes),
        keep_for: row.get::<_, Option<u64>>(17)?.map(Duration::from_millis),
        ephemeral: row.get(18)?,
        extras: document::<Extras>(row, 24)?.unwrap_or_default(),
    };
    let job = Job {
        id: JobId::from_bytes(row.get(1)?),
        spec,
        status: word(row, 4)?,
        run_at: instant(row, 7)?,
        attempt: row.get(8)?,
        run: row.get(9)?,
        crash_count: row.get(10)?,
        worker_id: row.get::<_, Option<[u8; 16]>>(29)?.map(WorkerId::from_bytes),
        lease_until: optional_instant(row, 30)?,
        waiting_on: row.get(19)?,
        progress: document::<Progress>(row, 26)?,
        result: row.get::<_, Option<Box<str>>>(27)?.map(Json::trusted),
        error: document::<Fault>(row, 28)?,
        created_at: instant(row, 20)?,
        updated_at: instant(row, 21)?,
        started_at: optional_instant(row, 22)?,
        finished_at: optional_instant(row, 23)?,
    };
    Ok((row.get(0)?, job))
}

/// The extras as they are stored: nothing for the many jobs that have none.
pub(crate) fn extras_text(extras: &Extras) -> Result<Option<String>, StoreError> {
    if *extras == Extras::default() { Ok(None) } else { text(extras).map(Some) }
}

/// A value as a stored document.
pub(crate) fn text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(format!("cannot write a document: {error}")))
}

/// A stored document, read.
pub(crate) fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(serde_json::from_str).transpose().map_err(|error| broken(column, error))
}

/// A stored word, such as a status.
pub(crate) fn word<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|error| broken(column, error))
}

/// A stored instant.
pub(crate) fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

/// A stored instant that may be absent.
pub(crate) fn optional_instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

fn broken(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// What a job is found by besides its id, name and status; few jobs have any.
pub(crate) fn labels(spec: &Spec) -> impl Iterator<Item = (&'static str, &str)> {
    let user = spec.user_id.iter().map(|user| ("user", user.as_str()));
    let correlation = spec.correlation_id.iter().map(|id| ("correlation", id.as_str()));
    let tags = spec.extras.tags.iter().map(|tag| ("tag", tag.as_str()));
    let schedule = spec.extras.occurrence.iter().map(|occurrence| ("schedule", occurrence.schedule.as_str()));
    user.chain(correlation).chain(tags).chain(schedule)
}
