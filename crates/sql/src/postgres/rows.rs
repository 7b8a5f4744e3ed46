//! Conversion of rows to the domain's types.

use std::time::Duration;

use punctual_core::{Job, JobError, JobOptions, Json, Progress, Spec, StoreError, Timestamp, WorkerId, WorkflowId};
use sqlx::{Row, postgres::PgRow};

use super::{
    error::refuse,
    value::{At, Uuid, job_id},
};

/// Converts a row that begins with a job's columns to that job. The worker and the lease follow only in the rows of
/// `punctual_jobs_now`. The error for a corrupt row contains the job's id.
pub(crate) fn job(row: &PgRow) -> sqlx::Result<Job> {
    read_job(row).map_err(|error| match row.try_get(0) {
        Ok(id) => refuse(StoreError::CorruptRow { row: job_id(id).to_string(), reason: error.to_string() }),
        Err(_) => error,
    })
}

fn read_job(row: &PgRow) -> sqlx::Result<Job> {
    let spec = Spec {
        name: row.try_get(1)?,
        queue: row.try_get(2)?,
        payload: Json::trusted(row.try_get::<String, _>(23)?),
        priority: row.try_get::<i16, _>(4)? as u8,
        max_attempts: number(row, 9)?,
        timeout: Duration::from_millis(row.try_get::<i64, _>(10)? as u64),
        user_id: row.try_get(11)?,
        correlation_id: row.try_get(12)?,
        unique_key: row.try_get(13)?,
        workflow_id: row.try_get::<Option<Uuid>, _>(14)?.map(|id| WorkflowId::from_bits(id.as_u128())),
        keep_for: row.try_get::<Option<i64>, _>(15)?.map(|keep| Duration::from_millis(keep as u64)),
        ephemeral: row.try_get(16)?,
        options: document::<JobOptions>(row, 22)?.unwrap_or_default(),
    };
    Ok(Job {
        id: job_id(row.try_get(0)?),
        spec,
        status: word(row, 3)?,
        run_at: instant(row, 5)?,
        attempt: number(row, 6)?,
        run: number(row, 7)?,
        crash_count: number(row, 8)?,
        worker_id: None,
        lease_until: None,
        waiting_on: number(row, 17)?,
        progress: document::<Progress>(row, 24)?,
        result: row.try_get::<Option<String>, _>(25)?.map(Json::trusted),
        error: document::<JobError>(row, 26)?,
        created_at: instant(row, 18)?,
        updated_at: instant(row, 19)?,
        started_at: optional_instant(row, 20)?,
        finished_at: optional_instant(row, 21)?,
    })
}

/// Converts a row of `punctual_jobs_now`: a job, its worker and its lease.
pub(crate) fn job_now(row: &PgRow) -> sqlx::Result<Job> {
    let worker = row.try_get::<Option<Uuid>, _>(27)?.map(|id| WorkerId::from_bits(id.as_u128()));
    Ok(Job { worker_id: worker, lease_until: optional_instant(row, 28)?, ..job(row)? })
}

/// A stored number that is never negative.
pub(crate) fn number(row: &PgRow, column: usize) -> sqlx::Result<u32> {
    row.try_get::<i32, _>(column).map(|number| number as u32)
}

/// A stored instant.
pub(crate) fn instant(row: &PgRow, column: usize) -> sqlx::Result<Timestamp> {
    row.try_get::<At, _>(column).map(|at| at.0)
}

/// A stored instant that may be absent.
pub(crate) fn optional_instant(row: &PgRow, column: usize) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<At>, _>(column)?.map(|at| at.0))
}

/// A stored word, such as a status.
pub(crate) fn word<T>(row: &PgRow, column: usize) -> sqlx::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.try_get::<&str, _>(column)?.parse().map_err(|error| broken(column, error))
}

/// A stored JSON document, parsed.
pub(crate) fn document<T: serde::de::DeserializeOwned>(row: &PgRow, column: usize) -> sqlx::Result<Option<T>> {
    let text = row.try_get::<Option<&str>, _>(column)?;
    text.map(serde_json::from_str).transpose().map_err(|error| broken(column, error))
}

/// Serializes a value to JSON.
pub(crate) fn text(value: &impl serde::Serialize) -> sqlx::Result<String> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

fn broken(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_string(), source: Box::new(error) }
}
