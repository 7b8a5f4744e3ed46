//! Lanes: a queue, a name and a level, without or with concurrency keys. Claims read jobs lane by lane, so they must
//! know which lanes exist.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::{ClaimRequest, JobId, NewJob, Spec, Timestamp, dispatch};
use sqlx::{PgConnection, Row};

use super::super::{queues::QueueSnapshot, statements as sql};
use crate::level::Level;

/// A queue, a name and a level, and whether the jobs have concurrency keys.
pub(crate) type Lane = (String, String, Level, bool);

/// Maximum delay with which a queued job may become visible behind one that has been claimed: its enqueue began before
/// the claim, and committed after it.
pub(crate) const SLACK: std::time::Duration = std::time::Duration::from_secs(1);

/// A position in the order of a lane: that of a job, or before all jobs of an instant. Many jobs may be queued in the
/// same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScanPosition {
    pub(crate) run_at: Timestamp,
    pub(crate) job: Option<JobId>,
}

impl ScanPosition {
    /// Before all jobs.
    pub(crate) const FIRST: Self = Self::at(Timestamp::MIN);

    /// Before all jobs of an instant.
    pub(crate) const fn at(run_at: Timestamp) -> Self {
        Self { run_at, job: None }
    }
}

/// The lanes that this process knows.
///
/// The index entries of recently deleted rows remain until VACUUM removes them, which a long transaction prevents. A
/// claim that began at the head of its lane would step over all of them every time. It therefore begins at a bound.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<KnownLanes>);

#[derive(Debug, Default)]
struct KnownLanes {
    numbers: HashMap<Lane, i32>,
    /// By number: the lane as a dispatcher knows it. A dispatcher hands out only jobs without limits that are not
    /// suspects.
    shared: HashMap<i32, Arc<dispatch::Lane>>,
    /// By number: the lane, and the position before which no job is expected in it.
    bounds: BTreeMap<i32, (Lane, ScanPosition)>,
}

/// A lane that a worker serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) number: i32,
    /// Lanes with a lower rank are claimed first.
    pub(crate) rank: i32,
    /// No job is expected before this position.
    pub(crate) bound: ScanPosition,
    /// Whether the jobs have concurrency keys.
    pub(crate) keyed: bool,
}

impl Lanes {
    fn lock(&self) -> std::sync::MutexGuard<'_, KnownLanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lanes of the jobs that this process does not know.
    pub(crate) fn unknown(&self, jobs: &[NewJob]) -> Vec<Lane> {
        let mut distinct: Vec<&NewJob> = jobs.iter().collect();
        distinct.dedup_by(|one, other| same(&one.spec, &other.spec));
        let known = self.lock();
        let lanes = distinct.into_iter().map(|job| lane_of(&job.spec));
        let unknown: BTreeSet<Lane> = lanes.filter(|lane| !known.numbers.contains_key(lane)).collect();
        unknown.into_iter().collect()
    }

    /// Stores the lanes that do not exist.
    pub(crate) async fn add(&self, connection: &mut PgConnection, lanes: Vec<Lane>) -> sqlx::Result<()> {
        sqlx::query(*sql::INSERT_LANES)
            .bind(lanes.iter().map(|(queue, ..)| queue.as_str()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|(_, name, ..)| name.as_str()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|(_, _, level, _)| level.number()).collect::<Vec<_>>())
            .bind(lanes.iter().map(|(.., keyed)| *keyed).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
        self.refresh(connection).await
    }

    /// Reads the lanes again.
    pub(crate) async fn refresh(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let rows = sqlx::query(*sql::LANES).fetch_all(connection).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let level = Level::from_number(row.try_get(3)?);
            let lane: Lane = (row.try_get(1)?, row.try_get(2)?, level, row.try_get(4)?);
            found.push((row.try_get(0)?, lane));
        }
        let mut known = self.lock();
        for (number, lane) in found {
            known.numbers.insert(lane.clone(), number);
            let (queue, name, level, keyed) = lane.clone();
            if !keyed && !level.is_suspect() {
                let shared = dispatch::Lane { queue, name, priority: level.priority() };
                known.shared.entry(number).or_insert_with(|| Arc::new(shared));
            }
            known.bounds.entry(number).or_insert((lane, ScanPosition::FIRST));
        }
        Ok(())
    }

    /// The numbers of jobs' lanes, all of which are known.
    pub(crate) fn numbers<'a>(&self, jobs: impl IntoIterator<Item = &'a NewJob>) -> Vec<i32> {
        let known = self.lock();
        let mut last: Option<(&Spec, i32)> = None;
        let number = |job: &'a NewJob| {
            let spec = &job.spec;
            // Adjacent jobs are mostly of the same lane.
            let number = match last {
                Some((former, number)) if same(former, spec) => number,
                _ => known.numbers.get(&lane_of(spec)).copied().unwrap_or_default(),
            };
            last = Some((spec, number));
            number
        };
        jobs.into_iter().map(number).collect()
    }

    /// The lane of the job as a suspect, if it is known.
    pub(crate) fn of_suspect(&self, spec: &Spec) -> Option<i32> {
        self.lock().numbers.get(&lane_of_suspect(spec)).copied()
    }

    /// The lane with this number, if it is known.
    pub(crate) fn lane(&self, number: i32) -> Option<Lane> {
        self.lock().bounds.get(&number).map(|(lane, _)| lane.clone())
    }

    /// The lane with this number as a dispatcher knows it, if it is known.
    pub(crate) fn shared(&self, number: i32) -> Option<Arc<dispatch::Lane>> {
        self.lock().shared.get(&number).cloned()
    }

    /// The numbers of the lanes that a dispatcher knows, of a queue or of all queues.
    pub(crate) fn dispatched(&self, queue: Option<&str>) -> Vec<i32> {
        let known = self.lock();
        let is_meant = |lane: &dispatch::Lane| queue.is_none_or(|queue| queue == lane.queue);
        known.shared.iter().filter(|(_, lane)| is_meant(lane)).map(|(number, _)| *number).collect()
    }

    /// The numbers of lanes as a dispatcher knows them; `None` for those that are not known.
    pub(crate) fn plain<'a>(&self, lanes: impl IntoIterator<Item = &'a dispatch::Lane>) -> Vec<Option<i32>> {
        let known = self.lock();
        let mut last: Option<(&dispatch::Lane, Option<i32>)> = None;
        let number = |lane: &'a dispatch::Lane| {
            // Adjacent lanes are mostly the same.
            let number = match last {
                Some((former, number)) if former == lane => number,
                _ => known
                    .numbers
                    .get(&(lane.queue.clone(), lane.name.clone(), Level::of(lane.priority, false), false))
                    .copied(),
            };
            last = Some((lane, number));
            number
        };
        lanes.into_iter().map(number).collect()
    }

    /// The numbers of the lanes of a queue and a name; `None` stands for all.
    pub(crate) fn of(&self, queue: Option<&String>, name: Option<&String>) -> Vec<i32> {
        let known = self.lock();
        let fits = |selected: Option<&String>, name: &String| selected.is_none_or(|selected| selected == name);
        let lanes = known
            .bounds
            .iter()
            .filter(|(_, ((of_queue, of_name, ..), _))| fits(queue, of_queue) && fits(name, of_name));
        lanes.map(|(number, _)| *number).collect()
    }

    /// The lanes that a worker serves: those whose jobs have no limits, and the others with their queues.
    pub(crate) fn served(
        &self,
        request: &ClaimRequest,
        queues: &QueueSnapshot,
    ) -> (Vec<Served>, Vec<(String, Served)>) {
        let known = self.lock();
        let (mut plain, mut limited) = (Vec::new(), Vec::new());
        for (number, ((queue, name, level, keyed), bound)) in &known.bounds {
            let admitted = request.serves(queue, name) && request.suspects == level.is_suspect();
            if !admitted || queues.paused.contains(queue) {
                continue;
            }
            let rank = request.rank(queue, level.priority()) as i32;
            let lane = Served { number: *number, rank, bound: *bound, keyed: *keyed };
            if *keyed || queues.guards(queue) {
                limited.push((queue.clone(), lane));
            } else {
                plain.push(lane);
            }
        }
        (plain, limited)
    }

    /// Records that a claim has taken a job of a lane: no job is expected before it, except those that commit
    /// [late](SLACK).
    pub(crate) fn taken(&self, number: i32, position: ScanPosition) {
        if let Some((_, bound)) = self.lock().bounds.get_mut(&number) {
            *bound = (*bound).max(position);
        }
    }

    /// Records that a job as old as `run_at` was added to a lane.
    pub(crate) fn put(&self, number: i32, run_at: Timestamp) {
        if let Some((_, bound)) = self.lock().bounds.get_mut(&number) {
            *bound = (*bound).min(ScanPosition::at(run_at));
        }
    }

    /// Records that jobs were added, each at most as old as the time in its id.
    pub(crate) fn put_all(&self, jobs: &[NewJob]) {
        let mut oldest: HashMap<i32, Timestamp> = HashMap::new();
        for (job, number) in jobs.iter().zip(self.numbers(jobs)) {
            let known = oldest.entry(number).or_insert(Timestamp::MAX);
            *known = job.id.timestamp().min(*known);
        }
        oldest.into_iter().for_each(|(number, at)| self.put(number, at));
    }

    /// Resets all bounds: jobs are expected at any position.
    pub(crate) fn forget_bounds(&self) {
        self.lock().bounds.values_mut().for_each(|(_, bound)| *bound = ScanPosition::FIRST);
    }
}

fn lane_of(spec: &Spec) -> Lane {
    let level = Level::of(spec.priority, false);
    (spec.queue.clone(), spec.name.clone(), level, spec.options.concurrency_key.is_some())
}

pub(crate) fn lane_of_suspect(spec: &Spec) -> Lane {
    let (queue, name, level, keyed) = lane_of(spec);
    (queue, name, level.suspected(), keyed)
}

/// Whether two jobs are of the same lane.
pub(crate) fn same(one: &Spec, other: &Spec) -> bool {
    let keyed = |spec: &Spec| spec.options.concurrency_key.is_some();
    (&one.queue, &one.name, one.priority, keyed(one)) == (&other.queue, &other.name, other.priority, keyed(other))
}
