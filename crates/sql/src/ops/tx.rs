//! One operation of the port inside a write transaction: its connection, its time, and the counters and indexes that it
//! must keep consistent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Range,
    time::Duration,
};

use punctual_core::{
    JobId, Status, StoreError, StoreResult, Timestamp, WorkflowId,
    measure::{self, Measure},
    workflow::EndsChange,
};

use super::{edit::Edit, running::Running, statements as sql};
use crate::db::{Db, JobDb, Statement, Value, params};

/// An operation in progress. The surrounding transaction belongs to the writer, or to the caller of `enqueue_in`.
pub(crate) struct Tx<'c> {
    pub(crate) db: &'c dyn Db,
    /// The same connection, for what only jobs need.
    pub(crate) job_db: &'c dyn JobDb,
    /// The timestamp of everything that this operation writes.
    pub(crate) now: Timestamp,
    /// When the operation was requested, if it waited long for the writer; otherwise equal to `now`.
    pub(crate) requested_at: Timestamp,
    /// How long the operation waited for the writer.
    pub(crate) waited: Duration,
    /// Whether there are new jobs to claim.
    pub(crate) new_work: bool,
    /// Whether a job changed that a subscriber may be waiting for.
    pub(crate) jobs_changed: bool,
    /// Ranges of event numbers reserved for this operation, in ascending order.
    numbers: VecDeque<Range<i64>>,
    /// Changes of the counters, by queue and name; written once at the end instead of once per row.
    lanes: Vec<LaneCounters>,
    /// Jobs whose end has consequences that are not yet applied, with their row numbers and final statuses.
    pub(crate) ended: BTreeMap<JobId, (i64, Status)>,
    /// Concurrency keys whose jobs were added, removed or finished and whose limits are not yet re-evaluated.
    pub(crate) keys: BTreeSet<(String, String)>,
    /// Jobs that finished or were reactivated and whose workflows are not yet looked up.
    ends: Vec<(i64, Status, Status)>,
    /// Changes of the workflows' counts of finished jobs.
    workflows: BTreeMap<WorkflowId, EndsChange>,
    /// Changes of the counts of users' unfinished jobs.
    pending: HashMap<(String, String), i64>,
    /// Claims that this process made, so that settling them needs no lookup. A hint only: the row in the table decides.
    pub(crate) held: Held,
    /// The lane that was used last, which is usually the next one too.
    last_lane: usize,
}

/// The claims of this process, by job.
pub(crate) type Held = HashMap<[u8; 16], Running>;

/// Maximum number of remembered claims. More than a process can run means that other processes ended some of them; the
/// map is then cleared.
const HELD_MAX_COUNT: usize = 16_384;

#[derive(Debug)]
struct LaneCounters {
    queue: String,
    name: String,
    counts: [i64; Status::ALL.len()],
    rollups: HashMap<(Measure, u16), u64>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(db: &'c dyn JobDb, now: Timestamp) -> Self {
        Self {
            db,
            job_db: db,
            now,
            requested_at: now,
            waited: Duration::ZERO,
            new_work: false,
            jobs_changed: false,
            numbers: VecDeque::new(),
            lanes: Vec::new(),
            ended: BTreeMap::new(),
            keys: BTreeSet::new(),
            ends: Vec::new(),
            workflows: BTreeMap::new(),
            pending: HashMap::new(),
            held: Held::new(),
            last_lane: 0,
        }
    }

    /// This operation, as far as it changes no job.
    pub(crate) fn edit(&self) -> Edit<'c> {
        Edit { db: self.db, now: self.now }
    }

    /// Runs a statement; returns the number of changed rows.
    pub(crate) fn execute(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<usize> {
        self.db.execute(statement, params)
    }

    /// Like `execute`, without the number of rows, so that the engine may defer the statement and batch it with others.
    pub(crate) fn write(&self, statement: Statement, params: &[Value<'_>]) -> StoreResult<()> {
        self.db.write(statement, params)
    }

    /// Reserves numbers for `count` events at once.
    pub(crate) fn expect_events(&mut self, count: usize) -> StoreResult<()> {
        if self.numbers.is_empty() && count > 0 {
            self.numbers = self.job_db.event_numbers(count)?.into();
        }
        Ok(())
    }

    /// Returns the number for the next event to be written.
    pub(crate) fn number_event(&mut self) -> StoreResult<i64> {
        self.expect_events(1)?;
        let numbers = self.numbers.front_mut().ok_or_else(|| StoreError::Other("no number for an event".to_owned()))?;
        let number = numbers.start;
        numbers.start += 1;
        if numbers.is_empty() {
            self.numbers.pop_front();
        }
        Ok(number)
    }

    /// Writes an event; returns its number, which the job's next event must reference.
    pub(crate) fn event(&mut self, job: i64, previous: Option<i64>, line: EventLine<'_>) -> StoreResult<i64> {
        self.past_event(NewEvent { job, previous, at: self.now, line })
    }

    /// Like `event`, for an event with a time of its own.
    pub(crate) fn past_event(&mut self, event: NewEvent<'_>) -> StoreResult<i64> {
        let number = self.number_event()?;
        self.write_event(number, event)?;
        Ok(number)
    }

    /// Writes an event whose number is already assigned.
    pub(crate) fn write_event(&self, number: i64, event: NewEvent<'_>) -> StoreResult<()> {
        let NewEvent { job, previous, at, line: EventLine { status, run, actor, detail } } = event;
        self.write(
            sql::INSERT_EVENT,
            params![number, job, previous, at.as_micros(), status.as_str(), run, actor, detail],
        )
    }

    /// Remembers a claim for its settlement.
    pub(crate) fn remember(&mut self, id: [u8; 16], running: Running) {
        if self.held.len() >= HELD_MAX_COUNT {
            self.held.clear();
        }
        self.held.insert(id, running);
    }

    /// Counts that a job changed its status, was added (`from` is absent), or was removed (`to` is absent).
    pub(crate) fn count(&mut self, queue: &str, name: &str, from: Option<Status>, to: Option<Status>) {
        let lane = self.lane(queue, name);
        if let Some(from) = from {
            lane.counts[from as usize] -= 1;
        }
        if let Some(to) = to {
            lane.counts[to as usize] += 1;
        }
    }

    /// Records the duration since `start` in the histogram of a measure.
    pub(crate) fn rollup(&mut self, queue: &str, name: &str, measure: Measure, start: Timestamp) {
        let bucket = measure::bucket(self.now.since(start));
        *self.lane(queue, name).rollups.entry((measure, bucket)).or_default() += 1;
    }

    /// Adjusts the count of unfinished jobs of the job's user, if it has one.
    pub(crate) fn count_pending(&mut self, user: Option<&str>, name: &str, change: i64) {
        if let Some(user) = user.filter(|_| change != 0) {
            *self.pending.entry((user.to_owned(), name.to_owned())).or_default() += change;
        }
    }

    /// Records that a job reached a final status that may have consequences.
    pub(crate) fn ended(&mut self, id: JobId, seq: i64, from: Status, to: Status) {
        self.ended.insert(id, (seq, to));
        self.count_end(seq, from, to);
    }

    /// Records, for the job's workflow if it has one, that the job finished or was reactivated.
    pub(crate) fn count_end(&mut self, seq: i64, from: Status, to: Status) {
        self.ends.push((seq, from, to));
    }

    /// Looks up the workflows of the jobs that finished or were reactivated. Must run before another job can take over
    /// a node of one of these workflows.
    pub(crate) fn count_ends(&mut self) -> StoreResult<()> {
        let ends = std::mem::take(&mut self.ends);
        let workflows = self.db.all_each(
            sql::WORKFLOW_OF,
            &mut |row| ends.iter().try_for_each(|(seq, ..)| row(params![seq])),
            |row| row.get::<Option<[u8; 16]>>(0),
        )?;
        for (index, workflow) in workflows {
            let (_, from, to) = ends[index];
            workflow.into_iter().for_each(|id| self.count_end_of(WorkflowId::from_bytes(id), from, to));
        }
        Ok(())
    }

    /// Like `count_end`, where the workflow is known.
    pub(crate) fn count_end_of(&mut self, workflow: WorkflowId, from: Status, to: Status) {
        let change = EndsChange::of(from, to);
        if change != EndsChange::default() {
            let known = self.workflows.entry(workflow).or_default();
            *known = known.and(change);
        }
    }

    fn lane(&mut self, queue: &str, name: &str) -> &mut LaneCounters {
        let is = |lane: &LaneCounters| lane.name == name && lane.queue == queue;
        if !self.lanes.get(self.last_lane).is_some_and(is) {
            self.last_lane = self.lanes.iter().position(is).unwrap_or(self.lanes.len());
        }
        if self.last_lane == self.lanes.len() {
            let (queue, name) = (queue.to_owned(), name.to_owned());
            self.lanes.push(LaneCounters { queue, name, counts: [0; Status::ALL.len()], rollups: HashMap::new() });
        }
        &mut self.lanes[self.last_lane]
    }

    /// Writes the counters.
    pub(crate) fn write_counters(&mut self) -> StoreResult<()> {
        let workflows = std::mem::take(&mut self.workflows);
        workflows.iter().try_for_each(|(id, ends)| self.write_ends(*id, *ends))?;
        let lanes = std::mem::take(&mut self.lanes);
        lanes.iter().try_for_each(|lane| self.write_lane(lane))?;
        let pending = std::mem::take(&mut self.pending);
        pending.iter().try_for_each(|(key, change)| self.write_pending(key, *change))
    }

    fn write_ends(&self, workflow: WorkflowId, ends: EndsChange) -> StoreResult<()> {
        let EndsChange { succeeded, dead, cancelled } = ends;
        self.write(sql::COUNT_ENDS, params![workflow.to_bytes(), self.now.as_micros(), succeeded, dead, cancelled])
    }

    fn write_pending(&self, (user, name): &(String, String), change: i64) -> StoreResult<()> {
        // A job that finished as it was enqueued would leave a count of zero.
        if change == 0 {
            return Ok(());
        }
        self.write(sql::ADD_PENDING, params![user, name, change])?;
        // With several writers the changes are separate rows, which are added up later; zero counts are removed then.
        if change < 0 && self.db.is_only_writer() {
            self.write(sql::CLEAR_PENDING, params![user, name])?;
        }
        Ok(())
    }

    fn write_lane(&self, lane: &LaneCounters) -> StoreResult<()> {
        let LaneCounters { queue, name, counts, rollups } = lane;
        for (status, change) in Status::ALL.iter().zip(counts) {
            if *change != 0 {
                self.write(sql::ADD_COUNT, params![queue, name, status.as_str(), change])?;
            }
        }
        let hour = measure::hour(self.now).as_micros();
        for ((measure, bucket), count) in rollups {
            self.write(sql::ADD_ROLLUP, params![hour, name, queue, measure.as_str(), bucket, count])?;
        }
        Ok(())
    }
}

/// An event of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEvent<'a> {
    /// The row number of the job.
    pub(crate) job: i64,
    /// The number of the job's previous event.
    pub(crate) previous: Option<i64>,
    pub(crate) at: Timestamp,
    pub(crate) line: EventLine<'a>,
}

/// The contents of one event, besides its job and time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventLine<'a> {
    pub(crate) status: Status,
    pub(crate) run: Option<u32>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) detail: Option<&'a str>,
}

impl EventLine<'_> {
    /// An event without actor and detail, as for the regular status changes.
    pub(crate) const fn plain(status: Status, run: Option<u32>) -> Self {
        Self { status, run, actor: None, detail: None }
    }
}
