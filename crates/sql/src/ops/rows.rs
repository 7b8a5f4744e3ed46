//! Converts between rows and domain types.

use std::time::Duration;

use punctual_core::{
    Event, EventId, Job, JobError, JobId, JobOptions, Json, Progress, Spec, StoreError, StoreResult, Timestamp,
    WorkerId, WorkflowId,
};

use crate::db::{Row, corrupt};

/// A job as an operation reads it.
#[derive(Debug)]
pub(crate) struct JobRow {
    /// Its row number.
    pub(crate) seq: i64,
    pub(crate) job: Job,
    /// The number of its last event.
    pub(crate) last_event: Option<i64>,
}

impl JobRow {
    /// From a row of `punctual_jobs_now`.
    pub(crate) fn of(row: &dyn Row) -> StoreResult<Self> {
        let (seq, job) = job(row)?;
        Ok(Self { seq, job, last_event: row.get(31)? })
    }
}

/// The columns of `punctual_jobs_now` but the last, as a job and its row number. The error for a corrupt row names the
/// job.
pub(crate) fn job(row: &dyn Row) -> StoreResult<(i64, Job)> {
    read_job(row).map_err(|error| match (error, row.get(1)) {
        (StoreError::CorruptRow { reason, .. }, Ok(id)) => {
            StoreError::CorruptRow { row: JobId::from_bytes(id).to_string(), reason }
        }
        (error, _) => error,
    })
}

fn read_job(row: &dyn Row) -> StoreResult<(i64, Job)> {
    let spec = Spec {
        name: row.get(2)?,
        queue: row.get(3)?,
        payload: Json::trusted(row.get::<Box<str>>(25)?),
        priority: row.get(5)?,
        max_attempts: row.get(11)?,
        timeout: Duration::from_millis(row.get(12)?),
        user_id: row.get(13)?,
        correlation_id: row.get(14)?,
        unique_key: row.get(15)?,
        workflow_id: row.get::<Option<[u8; 16]>>(16)?.map(WorkflowId::from_bytes),
        keep_for: row.get::<Option<u64>>(17)?.map(Duration::from_millis),
        ephemeral: row.get(18)?,
        options: document::<JobOptions>(row, 24)?.unwrap_or_default(),
    };
    let job = Job {
        id: JobId::from_bytes(row.get(1)?),
        spec,
        status: word(row, 4)?,
        run_at: instant(row, 7)?,
        attempt: row.get(8)?,
        run: row.get(9)?,
        crash_count: row.get(10)?,
        worker_id: row.get::<Option<[u8; 16]>>(29)?.map(WorkerId::from_bytes),
        lease_until: optional_instant(row, 30)?,
        waiting_on: row.get(19)?,
        progress: document::<Progress>(row, 26)?,
        result: row.get::<Option<Box<str>>>(27)?.map(Json::trusted),
        error: document::<JobError>(row, 28)?,
        created_at: instant(row, 20)?,
        updated_at: instant(row, 21)?,
        started_at: optional_instant(row, 22)?,
        finished_at: optional_instant(row, 23)?,
    };
    Ok((row.get(0)?, job))
}

/// The first six columns of a row as an event.
pub(crate) fn event(row: &dyn Row) -> StoreResult<Event> {
    let at = instant(row, 1)?;
    Ok(Event {
        id: EventId::new(at, row.get(0)?),
        at,
        status: word(row, 2)?,
        run: row.get(3)?,
        actor: row.get(4)?,
        detail: row.get(5)?,
    })
}

/// The options as stored: null for a job without options, as most are.
pub(crate) fn options_text(options: &JobOptions) -> StoreResult<Option<String>> {
    if *options == JobOptions::default() { Ok(None) } else { text(options).map(Some) }
}

/// Serializes a value to a stored document.
pub(crate) fn text(value: &impl serde::Serialize) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(format!("cannot write a document: {error}")))
}

/// Parses a stored document.
pub(crate) fn document<T: serde::de::DeserializeOwned>(row: &dyn Row, column: usize) -> StoreResult<Option<T>> {
    let text = row.get::<Option<&str>>(column)?;
    text.map(serde_json::from_str).transpose().map_err(|error| broken(column, &error))
}

/// Parses a stored word, such as a status.
pub(crate) fn word<T>(row: &dyn Row, column: usize) -> StoreResult<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error,
{
    row.get::<&str>(column)?.parse().map_err(|error| broken(column, &error))
}

/// Reads a stored timestamp.
pub(crate) fn instant(row: &dyn Row, column: usize) -> StoreResult<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

/// Reads a stored timestamp that may be null.
pub(crate) fn optional_instant(row: &dyn Row, column: usize) -> StoreResult<Option<Timestamp>> {
    Ok(row.get::<Option<i64>>(column)?.map(Timestamp::from_micros))
}

fn broken(column: usize, error: &dyn std::error::Error) -> StoreError {
    corrupt(format!("column {column} cannot be read: {error}"))
}
