//! Running jobs and the workers that hold them.

use std::{collections::HashMap, time::Duration};

use punctual_core::{Settlement, Status, StoreResult, Timestamp, WorkerId, effects::Phase};

use super::{rows, statements as sql};
use crate::db::{Db, Row, Statement, params};
use crate::level::Level;

/// A row of the running table: the worker that holds a job, and the times of its start and its lease.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) seq: i64,
    pub(crate) run: u32,
    pub(crate) attempt: u32,
    pub(crate) worker: WorkerId,
    pub(crate) lease_until: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) level: Level,
    pub(crate) queue: String,
    pub(crate) name: String,
    pub(crate) keep_for: Option<Duration>,
    pub(crate) user: Option<String>,
    pub(crate) last_event: Option<i64>,
    /// Whether the job's end has consequences: other jobs depend on it, or it belongs to a workflow.
    pub(crate) flow: bool,
    /// Its concurrency key; empty if only its queue is limited; absent without limits.
    pub(crate) limit_key: Option<String>,
}

impl Running {
    /// The execution of the job, if it is running.
    pub(crate) fn find(db: &dyn Db, id: [u8; 16]) -> StoreResult<Option<Self>> {
        db.one(sql::RUNNING, params![id], Self::of)
    }

    /// The executions of those jobs that are running.
    pub(crate) fn find_each(db: &dyn Db, ids: &[[u8; 16]]) -> StoreResult<HashMap<[u8; 16], Self>> {
        Self::read_each(db, sql::RUNNING, ids)
    }

    /// Like `find_each`, and locks the rows, so that no other transaction ends the executions meanwhile.
    pub(crate) fn hold_each(db: &dyn Db, ids: &[[u8; 16]]) -> StoreResult<HashMap<[u8; 16], Self>> {
        Self::read_each(db, sql::HOLD_RUNNING, ids)
    }

    fn read_each(db: &dyn Db, statement: Statement, ids: &[[u8; 16]]) -> StoreResult<HashMap<[u8; 16], Self>> {
        let mut found = HashMap::new();
        db.read_each(statement, &mut |row| ids.iter().try_for_each(|id| row(params![id])), &mut |index, row| {
            found.insert(ids[index], Self::of(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn of(row: &dyn Row) -> StoreResult<Self> {
        Ok(Self {
            seq: row.get(0)?,
            run: row.get(1)?,
            attempt: row.get(2)?,
            worker: WorkerId::from_bytes(row.get(3)?),
            lease_until: rows::instant(row, 4)?,
            started_at: rows::instant(row, 5)?,
            level: row.get(6)?,
            queue: row.get(7)?,
            name: row.get(8)?,
            keep_for: row.get::<Option<u64>>(9)?.map(Duration::from_millis),
            user: row.get(10)?,
            last_event: row.get(11)?,
            flow: row.get(12)?,
            limit_key: row.get(13)?,
        })
    }

    /// Inserts the row.
    pub(crate) fn insert(&self, db: &dyn Db, id: [u8; 16]) -> StoreResult<()> {
        db.write(
            sql::INSERT_RUNNING,
            params![
                id,
                self.seq,
                self.run,
                self.attempt,
                self.worker.to_bytes(),
                self.lease_until.as_micros(),
                self.started_at.as_micros(),
                self.level,
                self.queue,
                self.name,
                self.keep_for.map(|keep| keep.as_millis() as i64),
                self.user,
                self.last_event,
                self.flow,
                self.limit_key,
            ],
        )?;
        Ok(())
    }

    /// The phase of the job, whose start time before the execution was `run_at`.
    pub(crate) const fn phase(&self, run_at: Timestamp) -> Phase {
        let Self { started_at: updated_at, keep_for, .. } = *self;
        Phase { status: Status::Processing, run_at, updated_at, finished_at: None, keep_for }
    }

    /// Whether this is the execution that the settlement names, held by the same worker.
    pub(crate) fn is_of(&self, settlement: &Settlement) -> bool {
        self.run == settlement.attempt.run && self.worker == settlement.worker
    }
}
