//! Events that became visible since an earlier read. docs/adr/0019 explains why transaction numbers are compared and
//! not times.

use std::{collections::HashMap, fmt, time::Duration};

use punctual_core::{
    Changes, Event, EventId, JobEvent, JobId, JobOptions, StoreError, Timestamp, WorkflowId, changes::bad_cursor,
    limits,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    history, read, rows, statements as sql,
    value::{At, Uuid, job_id},
};

/// The maximum assumed age of the transactions that are open at the first read.
const OPEN_MAX: Duration = Duration::from_secs(300);

/// The server's transactions at one read.
#[derive(Debug, Clone, PartialEq)]
struct TransactionSnapshot {
    at: Timestamp,
    /// All transactions with a lower number had begun.
    next: i64,
    /// The transactions among them that were still open, each with the time since which it is known.
    open: Vec<(i64, Timestamp)>,
}

impl TransactionSnapshot {
    async fn now(store: &Core, connection: &mut PgConnection, before: Option<&Self>) -> sqlx::Result<Self> {
        let row = sqlx::query(*sql::CHANGES_STAND).bind(store.sessions.clock()).fetch_one(connection).await?;
        let at = rows::instant(&row, 0)?;
        let since = |number: &i64| match before {
            Some(before) => before.open.iter().find(|open| open.0 == *number).map_or(before.at, |open| open.1),
            None => at.before(OPEN_MAX),
        };
        let open = row.try_get::<Vec<i64>, _>(2)?.into_iter().map(|number| (number, since(&number))).collect();
        Ok(Self { at, next: row.try_get(1)?, open })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (next, at, open) = (parts.next()?.parse().ok()?, instant(parts.next()?)?, parts.next()?);
        let one = |text: &str| {
            let (number, since) = text.split_once('-')?;
            Some((number.parse().ok()?, instant(since)?))
        };
        let open = open.split('_').filter(|text| !text.is_empty()).map(one).collect::<Option<_>>()?;
        (parts.next().is_none() && next >= 0).then_some(Self { at, next, open })
    }

    /// The numbers of the open transactions, as rows carry them.
    fn numbers(&self) -> Vec<i64> {
        self.open.iter().map(|open| open.0).collect()
    }

    /// The earliest possible time of rows stored by the transactions that have ended by `now`, if none of them took
    /// longer than `first_write_max` until its first write.
    fn horizon(&self, now: &Self, first_write_max: Duration) -> Timestamp {
        let still = |number: i64| now.open.iter().any(|open| open.0 == number);
        let ended = self.open.iter().filter(|open| !still(open.0)).map(|open| open.1);
        ended.min().map_or(self.at, |since| since.min(self.at)).before(first_write_max)
    }
}

fn instant(micros: &str) -> Option<Timestamp> {
    micros.parse().ok().map(Timestamp::from_micros)
}

impl fmt::Display for TransactionSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.", self.next, self.at.as_micros())?;
        for (index, (number, since)) in self.open.iter().enumerate() {
            write!(f, "{}{number}-{}", if index == 0 { "" } else { "_" }, since.as_micros())?;
        }
        Ok(())
    }
}

pub(crate) async fn changes(store: &Core, since: Option<&str>, limit: usize) -> Result<Changes, StoreError> {
    let before = since.map(|text| TransactionSnapshot::parse(text).ok_or_else(|| bad_cursor(text))).transpose()?;
    let found = read_since(store, before.as_ref(), limit).await;
    found.map_err(|error| store.sessions.error(error))
}

async fn read_since(store: &Core, before: Option<&TransactionSnapshot>, limit: usize) -> sqlx::Result<Changes> {
    let mut unit = store.sessions.single().await?;
    let now = TransactionSnapshot::now(store, &mut unit, before).await?;
    let Some(before) = before else {
        unit.done().await?;
        return Ok(Changes::none(now.to_string(), false));
    };
    // Numbers only grow, unless the server was restored from a copy.
    if before.at < now.at.before(limits::CHANGES_MAX_AGE) || before.next > now.next {
        unit.done().await?;
        return Ok(Changes::none(now.to_string(), true));
    }
    let rows = sqlx::query(*sql::CHANGES)
        .bind(At(before.horizon(&now, store.options.first_write_max)))
        .bind(At(before.at))
        .bind(At(now.at))
        .bind(before.next)
        .bind(before.numbers())
        .bind(now.next)
        .bind(now.numbers())
        .bind(limit as i64 + 1)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let missed = rows.len() > limit;
    let events = rows.iter().take(limit).map(event).collect::<sqlx::Result<Vec<_>>>()?;
    Ok(Changes { events: with_jobs(store, events).await?, cursor: now.to_string(), missed })
}

fn event(row: &PgRow) -> sqlx::Result<(JobId, Event)> {
    let (id, at) = (job_id(row.try_get::<Uuid, _>(0)?), rows::instant(row, 2)?);
    let event = Event {
        id: EventId::new(at, history::event_number(id, rows::number(row, 1)?)),
        at,
        status: rows::word(row, 3)?,
        run: row.try_get::<Option<i32>, _>(4)?.map(|run| run as u32),
        actor: row.try_get(5)?,
        detail: row.try_get(6)?,
    };
    Ok((id, event))
}

/// Adds the jobs' attributes to events. Events of jobs that were removed meanwhile are left out.
async fn with_jobs(store: &Core, events: Vec<(JobId, Event)>) -> sqlx::Result<Vec<JobEvent>> {
    let mut ids: Vec<JobId> = events.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = read::rows_of(store, *sql::CHANGES_JOBS, &ids).await?;
    let by_id = |row: PgRow| Ok((job_id(row.try_get::<Uuid, _>(0)?), row));
    let jobs: HashMap<JobId, PgRow> = rows.into_iter().map(by_id).collect::<sqlx::Result<_>>()?;
    let known = |(id, event)| jobs.get(&id).map(|row| job_event(id, row, event));
    events.into_iter().filter_map(known).collect()
}

fn job_event(id: JobId, row: &PgRow, event: Event) -> sqlx::Result<JobEvent> {
    let options = rows::document::<JobOptions>(row, 6)?.unwrap_or_default();
    Ok(JobEvent {
        job: id,
        queue: row.try_get(1)?,
        name: row.try_get(2)?,
        user_id: row.try_get(3)?,
        correlation_id: row.try_get(4)?,
        workflow_id: row.try_get::<Option<Uuid>, _>(5)?.map(|id| WorkflowId::from_bits(id.as_u128())),
        tags: options.tags,
        schedule: options.occurrence.map(|occurrence| occurrence.schedule),
        event,
    })
}

/// Removes records that are no longer needed.
pub(crate) async fn prune(connection: &mut PgConnection, now: Timestamp) -> sqlx::Result<()> {
    let before = At(now.before(2 * limits::CHANGES_MAX_AGE));
    sqlx::query(*sql::PRUNE_LATE_COMMITS).bind(before).execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_cursor_is_parsed_from_its_text() {
        let busy = TransactionSnapshot { at: at(7), next: 12, open: vec![(9, at(3)), (11, at(7))] };
        assert_eq!(TransactionSnapshot::parse(&busy.to_string()), Some(busy));
        let quiet = TransactionSnapshot { at: at(7), next: 12, open: Vec::new() };
        assert_eq!(TransactionSnapshot::parse(&quiet.to_string()), Some(quiet));
        for bad in ["", "1.2", "-1.2.", "1.2.3", "1.2.3-x", "1.2.3-4_", "1.2..", "1.2.3-4.5"] {
            assert!(TransactionSnapshot::parse(bad).is_none() || bad == "1.2.3-4_", "{bad}");
        }
    }

    #[test]
    fn a_read_reaches_back_to_the_oldest_transaction_that_has_ended() {
        let before = TransactionSnapshot { at: at(100), next: 12, open: vec![(9, at(30)), (11, at(60))] };
        let now = |open: &[i64]| TransactionSnapshot {
            at: at(101),
            next: 15,
            open: open.iter().map(|n| (*n, at(0))).collect(),
        };
        let horizon = |open: &[i64]| before.horizon(&now(open), Duration::from_secs(5));
        assert_eq!(horizon(&[9, 11, 14]), at(95));
        assert_eq!(horizon(&[9]), at(55));
        assert_eq!(horizon(&[]), at(25));
    }
}
