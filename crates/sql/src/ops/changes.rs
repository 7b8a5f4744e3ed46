//! Events since a cursor. Events are numbered, so a number is a cursor. With concurrent writers, an event can become
//! visible after events with greater numbers; the missing numbers are part of the cursor and are queried again.

use std::{ops::Range, time::Duration};

use punctual_core::{
    Changes, JobEvent, JobId, JobOptions, StoreResult, Timestamp, WorkflowId,
    changes::{CountCursor, Gap},
    limits,
};

use super::{rows, statements as sql};
use crate::db::{Db, Row, params};

/// How many of the last numbers are searched for gaps, where no cursor has them.
const FIRST_READ_MAX_NUMBERS: u64 = 10_000;
/// Maximum number of gaps in a cursor; the oldest are given up.
const GAPS_MAX_COUNT: usize = 64;
/// How long an operation may take until its events become visible.
const GAP_MAY_FILL_FOR: Duration = Duration::from_secs(120);

pub(crate) fn changes(db: &dyn Db, now: Timestamp, since: Option<&str>, limit: usize) -> StoreResult<Changes> {
    let next: u64 = db.only(sql::NEXT_EVENT, &[], |row| row.get(0))?;
    let end = |missed| {
        let mut gaps = open_gaps(db, now, next - 1)?;
        newest(&mut gaps);
        Ok(Changes::none(CountCursor { last: next - 1, at: now, gaps }.to_string(), missed))
    };
    let Some(since) = since.map(CountCursor::parse).transpose()? else { return end(false) };
    // A number that no event has yet comes from the cursor of another store.
    if since.is_too_old(now) || since.last >= next {
        return end(true);
    }
    let mut events = Vec::new();
    for Gap { numbers, .. } in &since.gaps {
        events.extend(read(db, numbers.clone(), limit + 1)?);
    }
    events.extend(read(db, since.last + 1..u64::MAX, limit + 1)?);
    let missed = events.len() > limit;
    events.truncate(limit);
    let number = |event: &JobEvent| event.event.id.number();
    // Other writers may have stored events since `next` was read.
    let last = events.last().map_or(0, number).max(next - 1);
    let mut gaps = match missed {
        true => open_gaps(db, now, last)?,
        false if db.is_only_writer() => Vec::new(),
        false => still_open(&since, now, last, events.iter().map(number)),
    };
    // An old gap belongs to an operation that was never committed.
    let given_up = newest(&mut gaps);
    let missed = missed || given_up.iter().any(|gap| gap.since > now.before(GAP_MAY_FILL_FOR));
    Ok(Changes { events, cursor: CountCursor { last, at: now, gaps }.to_string(), missed })
}

/// Gaps up to `last`: numbers without a visible event.
fn open_gaps(db: &dyn Db, now: Timestamp, last: u64) -> StoreResult<Vec<Gap>> {
    if db.is_only_writer() {
        return Ok(Vec::new());
    }
    let first = last.saturating_sub(FIRST_READ_MAX_NUMBERS);
    let seen: Vec<u64> = db.all(sql::EVENT_NUMBERS, params![first, FIRST_READ_MAX_NUMBERS], |row| row.get(0))?;
    Ok(between(first + 1..last + 1, seen.into_iter(), now))
}

/// The gaps that remain after a query that returned these numbers.
fn still_open(before: &CountCursor, now: Timestamp, last: u64, seen: impl Iterator<Item = u64> + Clone) -> Vec<Gap> {
    let young = before.gaps.iter().filter(|gap| gap.since > now.before(limits::CHANGES_MAX_AGE));
    let old = young.flat_map(|gap| between(gap.numbers.clone(), seen.clone(), gap.since));
    old.chain(between(before.last + 1..last + 1, seen.clone(), now)).collect()
}

/// The gaps between the numbers that were seen, which are in ascending order.
fn between(numbers: Range<u64>, seen: impl Iterator<Item = u64>, since: Timestamp) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut next = numbers.start;
    for number in seen.filter(|number| numbers.contains(number)).chain([numbers.end]) {
        if next < number {
            gaps.push(Gap { numbers: next..number, since });
        }
        next = number + 1;
    }
    gaps
}

/// Removes and returns the oldest gaps above the maximum.
fn newest(gaps: &mut Vec<Gap>) -> Vec<Gap> {
    gaps.drain(..gaps.len().saturating_sub(GAPS_MAX_COUNT)).collect()
}

/// The events with these numbers.
fn read(db: &dyn Db, numbers: Range<u64>, limit: usize) -> StoreResult<Vec<JobEvent>> {
    let end = numbers.end.min(i64::MAX.cast_unsigned());
    db.all(sql::CHANGES, params![numbers.start, end, limit], job_event)
}

fn job_event(row: &dyn Row) -> StoreResult<JobEvent> {
    let options: JobOptions = rows::document(row, 12)?.unwrap_or_default();
    let workflow: Option<[u8; 16]> = row.get(11)?;
    Ok(JobEvent {
        job: JobId::from_bytes(row.get(6)?),
        queue: row.get(7)?,
        name: row.get(8)?,
        user_id: row.get(9)?,
        correlation_id: row.get(10)?,
        workflow_id: workflow.map(WorkflowId::from_bytes),
        tags: options.tags,
        schedule: options.occurrence.map(|occurrence| occurrence.schedule),
        event: rows::event(row)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn gap(numbers: Range<u64>, since: i64) -> Gap {
        Gap { numbers, since: at(since) }
    }

    #[test]
    fn a_gap_is_remembered_until_its_events_become_visible() {
        let before = CountCursor { last: 10, at: at(1), gaps: vec![gap(3..6, 1), gap(8..9, 1)] };
        let seen = [4, 8, 11, 14].into_iter();
        let expected = [gap(3..4, 1), gap(5..6, 1), gap(12..14, 2)];
        assert_eq!(still_open(&before, at(2), 14, seen), expected);
    }

    #[test]
    fn gaps_that_are_too_old_or_too_many_are_given_up() {
        let hour = limits::CHANGES_MAX_AGE.as_micros() as i64;
        let before = CountCursor { last: 10, at: at(1), gaps: vec![gap(3..6, 1), gap(8..9, 7)] };
        assert_eq!(still_open(&before, at(hour + 5), 10, [].into_iter()), [gap(8..9, 7)]);
        let many = CountCursor { last: 1, at: at(1), gaps: Vec::new() };
        let odd = (1..200).map(|number| 2 * number);
        let mut left = still_open(&many, at(2), 400, odd);
        assert_eq!(left.len(), 199);
        assert_eq!(newest(&mut left).len(), 135);
        assert_eq!((left.len(), &left[63]), (GAPS_MAX_COUNT, &gap(399..401, 2)));
    }
}
