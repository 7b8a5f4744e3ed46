//! Messages to users.

use std::time::Duration;

use punctual_core::{Json, NewNotification, Notification};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    rows, statements as sql,
    value::{Uuid, job_id},
};

pub(crate) async fn notify(store: &Core, messages: &[NewNotification]) -> sqlx::Result<Vec<Notification>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let users: Vec<Option<&str>> = messages.iter().map(|new| new.user_id.as_deref()).collect();
    let texts: Vec<&str> = messages.iter().map(|new| new.message.as_str()).collect();
    let jobs: Vec<Option<Uuid>> =
        messages.iter().map(|new| new.job.map(|job| Uuid::from_u128(job.to_bits()))).collect();
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::INSERT_NOTIFICATIONS)
        .bind(store.sessions.clock())
        .bind(users)
        .bind(texts)
        .bind(jobs)
        .fetch_one(&mut *unit)
        .await?;
    unit.done().await?;
    store.hints.notify_jobs();
    let (before, created_at) = (row.try_get::<i64, _>(0)? as u64, rows::instant(&row, 1)?);
    Ok(messages.iter().zip(before + 1..).map(|(new, id)| Notification::new(id, new.clone(), created_at)).collect())
}

pub(crate) async fn list(
    store: &Core,
    user: Option<&str>,
    after: u64,
    limit: usize,
) -> sqlx::Result<Vec<Notification>> {
    let mut unit = store.sessions.single().await?;
    let query = match user {
        Some(user) => sqlx::query(*sql::NOTIFICATIONS_OF_USER).bind(user.to_owned()),
        None => sqlx::query(*sql::NOTIFICATIONS),
    };
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let rows = query.bind(after).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(notification).collect()
}

fn notification(row: &PgRow) -> sqlx::Result<Notification> {
    let job: Option<Uuid> = row.try_get(3)?;
    Ok(Notification {
        id: row.try_get::<i64, _>(0)? as u64,
        user_id: row.try_get(1)?,
        message: Json::trusted(row.try_get::<String, _>(2)?),
        job: job.map(job_id),
        created_at: rows::instant(row, 4)?,
    })
}

pub(crate) async fn last(store: &Core) -> sqlx::Result<u64> {
    let mut unit = store.sessions.single().await?;
    let last: i64 = sqlx::query_scalar(*sql::LAST_NOTIFICATION).fetch_one(&mut *unit).await?;
    unit.done().await?;
    Ok(last as u64)
}

pub(crate) async fn drop(store: &Core, after: Duration, limit: usize) -> sqlx::Result<usize> {
    let mut unit = store.sessions.single().await?;
    let done = sqlx::query(*sql::PRUNE_NOTIFICATIONS)
        .bind(store.sessions.clock())
        .bind(after.as_micros() as i64)
        .bind(limit as i64)
        .execute(&mut *unit)
        .await?;
    unit.done().await?;
    Ok(done.rows_affected() as usize)
}
