//! Jobs go out to workers.
//!
//! Tried in a spike, in jobs a second from enqueue to settle: one jobs row updated in place behind partial indexes
//! 20,000; slim ready and running tables with the jobs row untouched until the end, as below, 26,000 to 28,000. The
//! figures and their limits are in docs/adr/0002.

use std::collections::HashMap;

use punctual_core::{Claim, ClaimRequest, Claimed, Status, StoreError, Timestamp, limits, measure::Measure};
use rusqlite::{CachedStatement, OptionalExtension, Row, params};

use super::{
    error::store_error,
    read, rows, statements as sql,
    tx::{EventLine, Tx},
};

/// Makes due jobs queued, then hands queued ones to a worker.
pub(crate) fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> Result<Claimed, StoreError> {
    promote(tx, limits::PROMOTE_MAX_JOBS)?;
    take(tx, request).map_err(store_error)
}

fn take(tx: &mut Tx<'_>, request: &ClaimRequest) -> rusqlite::Result<Claimed> {
    let lanes = read::lanes(tx.connection, &request.queues, &request.names)?;
    let places = first_places(tx, &lanes, request.limit)?;
    let mut claims = Vec::with_capacity(places.len());
    if !places.is_empty() {
        let mut steps = Steps::prepare(tx)?;
        for place in &places {
            claims.push(hold(tx, &mut steps, request, place)?);
        }
        leave_lanes(tx, &places)?;
    }
    let next: Option<i64> = tx.prepare(sql::NEXT_DUE)?.query_row([], |row| row.get(0))?;
    Ok(Claimed { claims, next_run_at: next.map(Timestamp::from_micros) })
}

/// Makes due scheduled and retrying jobs queued; says how many.
pub(crate) fn promote(tx: &mut Tx<'_>, limit: usize) -> Result<usize, StoreError> {
    let due: Vec<(i64, i64)> = {
        let mut due = tx.prepare(sql::DUE).map_err(store_error)?;
        let rows = due.query_map(params![tx.now.as_micros(), limit as i64], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(store_error)?
    };
    due.iter().try_for_each(|(run_at, seq)| promote_one(tx, *run_at, *seq)).map_err(store_error)?;
    Ok(due.len())
}

fn promote_one(tx: &mut Tx<'_>, run_at: i64, seq: i64) -> rusqlite::Result<()> {
    let read = |row: &Row<'_>| Ok((rows::word(row, 0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
    let (from, queue, name, priority, last_event): (Status, String, String, u8, _) =
        tx.prepare(sql::DUE_JOB)?.query_row([seq], read)?;
    let line = EventLine::plain(Status::Queued, None);
    let event = tx.event(&mut tx.prepare(sql::INSERT_EVENT)?, seq, last_event, line)?;
    tx.prepare(sql::PROMOTE_JOB)?.execute(params![seq, tx.now.as_micros(), event])?;
    tx.prepare(sql::DELETE_DUE)?.execute(params![run_at, seq])?;
    tx.prepare(sql::INSERT_READY)?.execute(params![queue, name, priority, run_at, seq])?;
    tx.count(&queue, &name, Some(from), Some(Status::Queued));
    tx.woke_work = true;
    Ok(())
}

/// A queue and a name.
type Lane = (String, String);

/// A queued job's place: the lane it stands in, and where in it.
struct Place<'l> {
    lane: &'l Lane,
    priority: u8,
    run_at: i64,
    seq: i64,
}

impl Place<'_> {
    /// Sorts in the order of claims.
    const fn rank(&self) -> (u8, i64, i64) {
        (u8::MAX - self.priority, self.run_at, self.seq)
    }
}

/// The first places among all lanes that the worker serves, in the order of claims.
fn first_places<'l>(tx: &Tx<'_>, lanes: &'l [Lane], limit: usize) -> rusqlite::Result<Vec<Place<'l>>> {
    let mut places = Vec::new();
    for lane in lanes {
        places.extend(head(tx, lane, limit)?);
        // Keeps memory and the final sort small when there are many lanes.
        if places.len() > 4 * limit {
            keep_first(&mut places, limit);
        }
    }
    keep_first(&mut places, limit);
    Ok(places)
}

fn keep_first(places: &mut Vec<Place<'_>>, limit: usize) {
    places.sort_unstable_by_key(Place::rank);
    places.truncate(limit);
}

fn head<'l>(tx: &Tx<'_>, lane: &'l Lane, limit: usize) -> rusqlite::Result<Vec<Place<'l>>> {
    let mut head = tx.prepare(sql::LANE_HEAD)?;
    let rows = head.query_map(params![lane.0, lane.1, limit as i64], |row| {
        Ok(Place { lane, priority: row.get(0)?, run_at: row.get(1)?, seq: row.get(2)? })
    })?;
    rows.collect()
}

/// Takes places out of their lanes, given in the order of claims. Of each lane and priority they are the first, so that
/// one range takes them all.
fn leave_lanes(tx: &Tx<'_>, places: &[Place<'_>]) -> rusqlite::Result<()> {
    let last_of_each: HashMap<_, _> =
        places.iter().map(|place| ((place.lane, place.priority), (place.run_at, place.seq))).collect();
    let mut delete = tx.prepare(sql::DELETE_LANE_HEAD)?;
    for (((queue, name), priority), (run_at, seq)) in last_of_each {
        delete.execute(params![queue, name, priority, run_at, seq])?;
    }
    Ok(())
}

/// The statements that every claimed job needs, looked up once for a batch.
struct Steps<'c> {
    read: CachedStatement<'c>,
    insert_running: CachedStatement<'c>,
    insert_event: CachedStatement<'c>,
}

impl<'c> Steps<'c> {
    fn prepare(tx: &Tx<'c>) -> rusqlite::Result<Self> {
        let (insert_running, insert_event) = (tx.prepare(sql::INSERT_RUNNING)?, tx.prepare(sql::INSERT_EVENT)?);
        Ok(Self { read: tx.prepare(sql::CLAIM_READ)?, insert_running, insert_event })
    }
}

/// Gives one job to the worker.
fn hold(tx: &mut Tx<'_>, steps: &mut Steps<'_>, request: &ClaimRequest, place: &Place<'_>) -> rusqlite::Result<Claim> {
    let Place { lane: (queue, name), priority, seq, .. } = place;
    let read = |row: &Row<'_>| Ok((rows::job(row)?.1, rows::last_event(row)?));
    let (mut job, last_event) = steps.read.query_row([seq], read)?;
    let lease_until = tx.now.after(request.lease);
    job.status = Status::Processing;
    job.attempt += 1;
    job.run += 1;
    job.worker_id = Some(request.worker);
    job.lease_until = Some(lease_until);
    job.started_at = Some(tx.now);
    job.updated_at = tx.now;
    let line = EventLine::plain(Status::Processing, Some(job.run));
    let event = tx.event(&mut steps.insert_event, *seq, last_event, line)?;
    steps.insert_running.execute(params![
        job.id.to_bytes(),
        seq,
        job.run,
        job.attempt,
        request.worker.to_bytes(),
        lease_until.as_micros(),
        tx.now.as_micros(),
        priority,
        queue,
        name,
        job.spec.keep_for.map(|keep| keep.as_millis() as i64),
        job.spec.user_id,
        event,
    ])?;
    tx.count(queue, name, Some(Status::Queued), Some(Status::Processing));
    tx.tally(queue, name, Measure::Lateness, job.run_at, tx.now);
    Ok(Claim { job, worker: request.worker })
}

/// Claims whose lease has run out.
pub(crate) fn expired(connection: &rusqlite::Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<Claim>> {
    let mut expired = connection.prepare_cached(sql::EXPIRED)?;
    let seqs = expired.query_map(params![now.as_micros(), limit as i64], |row| row.get::<_, i64>(0))?;
    let mut claims = Vec::new();
    for seq in seqs {
        let found = connection.prepare_cached(sql::GET_BY_SEQ)?.query_row([seq?], rows::job).optional()?;
        claims.extend(found.and_then(|(_, job)| Some(Claim { worker: job.worker_id?, job })));
    }
    Ok(claims)
}
