//! What happened since a former look. Events are numbered by the transactions that store them, one after the other, so that a number is a cursor.

use punctual_core::{
    Changes, Event, EventId, JobEvent, JobId, StoreResult, Timestamp, WorkflowId, changes::CountCursor,
};

use super::{rows, statements as sql};
use crate::db::{Db, Row, params};

pub(crate) fn changes(db: &dyn Db, now: Timestamp, since: Option<&str>, limit: usize) -> StoreResult<Changes> {
    let next: u64 = db.only(sql::NEXT_EVENT, &[], |row| row.get(0))?;
    let end = CountCursor { last: next - 1, at: now }.to_string();
    let Some(since) = since.map(CountCursor::parse).transpose()? else { return Ok(Changes::none(end, false)) };
    // A number that no event has yet is that of another file.
    if since.is_too_old(now) || since.last >= next {
        return Ok(Changes::none(end, true));
    }
    let mut events = read(db, since.last, limit + 1)?;
    let missed = events.len() > limit;
    events.truncate(limit);
    // Others may have stored some since the number was looked at.
    let last = events.last().map_or(0, |last| last.event.id.number()).max(next - 1);
    Ok(Changes { events, cursor: CountCursor { last, at: now }.to_string(), missed })
}

fn read(db: &dyn Db, last: u64, limit: usize) -> StoreResult<Vec<JobEvent>> {
    db.all(sql::CHANGES, params![last, limit], job_event)
}

fn job_event(row: &dyn Row) -> StoreResult<JobEvent> {
    let at = rows::instant(row, 1)?;
    let event = Event {
        id: EventId::new(at, row.get(0)?),
        at,
        status: rows::word(row, 2)?,
        run: row.get(3)?,
        actor: row.get(4)?,
        detail: row.get(5)?,
    };
    let extras = rows::document(row, 12)?.unwrap_or_default();
    let workflow: Option<[u8; 16]> = row.get(11)?;
    Ok(JobEvent {
        user_id: row.get(9)?,
        correlation_id: row.get(10)?,
        workflow_id: workflow.map(WorkflowId::from_bytes),
        ..JobEvent::new(JobId::from_bytes(row.get(6)?), row.get(7)?, row.get(8)?, extras, event)
    })
}
