//! Promotes due jobs to queued.

use punctual_core::{
    Status, StoreResult, Timestamp,
    effects::{Effects, Phase},
};

use super::{
    effects::{self, IndexedJob},
    ready::{Lane, ReadyJob},
    rows, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::{Row, params};
use crate::level::Level;

/// Promotes due scheduled and retrying jobs to queued; returns their number.
pub(crate) fn promote(tx: &mut Tx<'_>, limit: usize) -> StoreResult<usize> {
    let due = due_until(tx, tx.now, limit)?;
    tx.expect_events(due.len())?;
    due.iter().try_for_each(|job| promote_one(tx, job))?;
    Ok(due.len())
}

/// The jobs that are due by `until`.
pub(crate) fn due_until(tx: &Tx<'_>, until: Timestamp, limit: usize) -> StoreResult<Vec<DueJob>> {
    let due: Vec<(i64, i64)> =
        tx.db.all(sql::DUE, params![until.as_micros(), limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    tx.job_db.be_alone()?;
    let mut jobs =
        tx.db.only_each(sql::DUE_JOB, &mut |row| due.iter().try_for_each(|(_, seq)| row(params![seq])), DueJob::of)?;
    jobs.iter_mut().zip(due).for_each(|(job, (run_at, seq))| (job.run_at, job.seq) = (run_at, seq));
    Ok(jobs)
}

fn promote_one(tx: &mut Tx<'_>, job: &DueJob) -> StoreResult<()> {
    let effects = job.promotion(tx.now);
    job.promote(tx, &effects)?;
    effects::apply(tx, &job.indexed(), &effects)
}

/// A scheduled or retrying job.
pub(crate) struct DueJob {
    pub(crate) run_at: i64,
    pub(crate) seq: i64,
    status: Status,
    pub(crate) lane: Lane,
    pub(crate) level: Level,
    last_event: Option<i64>,
    pub(crate) key: Option<String>,
}

impl DueJob {
    /// All columns but the job's position (`run_at` and `seq`).
    fn of(row: &dyn Row) -> StoreResult<Self> {
        let (priority, suspect) = (row.get(3)?, row.get(6)?);
        Ok(Self {
            run_at: 0,
            seq: 0,
            // A corrupt status does not matter: it is overwritten by the promotion.
            status: rows::word(row, 0).ok().filter(|status: &Status| status.is_timed()).unwrap_or(Status::Scheduled),
            lane: Lane::new(row.get::<String>(1)?, row.get::<String>(2)?, suspect),
            level: Level::of(priority, suspect),
            last_event: row.get(4)?,
            key: row.get(5)?,
        })
    }

    pub(crate) fn ready_job(&self) -> ReadyJob<'_> {
        ReadyJob { lane: &self.lane, level: self.level, run_at: self.run_at, seq: self.seq, limit_key: None }
    }

    fn phase(&self) -> Phase {
        let run_at = Timestamp::from_micros(self.run_at);
        Phase { status: self.status, run_at, updated_at: run_at, finished_at: None, keep_for: None }
    }

    /// The effects of the job's promotion to queued.
    pub(crate) fn promotion(&self, now: Timestamp) -> Effects {
        let before = self.phase();
        Effects::changed(before, before.promoted(now))
    }

    pub(crate) fn indexed(&self) -> IndexedJob<'_> {
        let Self { lane: Lane { queue, name, .. }, level, seq, .. } = self;
        let (seq, level, key) = (*seq, *level, self.key.as_deref());
        IndexedJob { seq, queue, name, level, key, user: None, flow: None, any_failed: false, spec: None }
    }

    /// Writes the event and the row of the job; returns the number of the event.
    pub(crate) fn promote(&self, tx: &mut Tx<'_>, effects: &Effects) -> StoreResult<Option<i64>> {
        let line = EventLine::plain(Status::Queued, None);
        let event = effects::write_events(tx, (self.seq, self.last_event), effects, line)?;
        tx.write(sql::PROMOTE_JOB, params![self.seq, tx.now.as_micros(), event])?;
        Ok(event)
    }
}
