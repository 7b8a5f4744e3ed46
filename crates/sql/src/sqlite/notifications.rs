//! Messages to users.

use std::time::Duration;

use punctual_core::{JobId, Json, NewNotification, Notification};
use rusqlite::{Connection, Row, params};

use super::{rows, statements as sql, tx::Tx};

pub(crate) fn notify(tx: &mut Tx<'_>, messages: &[NewNotification]) -> rusqlite::Result<Vec<Notification>> {
    tx.woke_jobs = !messages.is_empty();
    let mut insert = tx.prepare(sql::INSERT_NOTIFICATION)?;
    let mut store = |new: &NewNotification| {
        let job = new.job.map(JobId::to_bytes);
        let row = params![new.user_id, new.message.as_str(), job, tx.now.as_micros()];
        let id = insert.query_row(row, |row| row.get(0))?;
        Ok(Notification::new(id, new.clone(), tx.now))
    };
    messages.iter().map(&mut store).collect()
}

pub(crate) fn list(
    connection: &Connection,
    user: Option<&str>,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Notification>> {
    let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), limit as i64);
    match user {
        Some(user) => {
            let mut statement = connection.prepare_cached(sql::NOTIFICATIONS_OF_USER)?;
            statement.query_map(params![user, after, limit], notification)?.collect()
        }
        None => {
            let mut statement = connection.prepare_cached(sql::NOTIFICATIONS)?;
            statement.query_map(params![after, limit], notification)?.collect()
        }
    }
}

fn notification(row: &Row<'_>) -> rusqlite::Result<Notification> {
    let job: Option<[u8; 16]> = row.get(3)?;
    Ok(Notification {
        id: row.get(0)?,
        user_id: row.get(1)?,
        message: Json::trusted(row.get::<_, Box<str>>(2)?),
        job: job.map(JobId::from_bytes),
        created_at: rows::instant(row, 4)?,
    })
}

pub(crate) fn last(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached(sql::LAST_NOTIFICATION)?.query_row([], |row| row.get(0))
}

pub(crate) fn drop(tx: &Tx<'_>, after: Duration, limit: usize) -> rusqlite::Result<usize> {
    tx.prepare(sql::TRIM_NOTIFICATIONS)?.execute(params![tx.now.before(after).as_micros(), limit as i64])
}
