//! Stores new jobs.

use std::collections::{BTreeSet, HashMap, HashSet};

use punctual_core::{
    Enqueued, JobId, NewJob, StoreError, Timestamp,
    dispatch::Stored,
    flow::{Next, Waiting},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    claim::lanes,
    core::Core,
    error,
    flow::{self, Beginnings},
    keys,
    locking::{self, JobStates},
    old_partitions,
    partition_creation::{self, Effort},
    partitions::Day,
    rows,
    session::Patience,
    statements::{self as sql, DispatchedBy},
    value::{At, Uuid, job_id, some_of, uuid},
};

/// How many days ahead the partitions of a day are created when a job is scheduled for it. Jobs that are further ahead
/// are stored in `…_rest` until their day comes near.
const HORIZON_DAYS: i64 = 30;

/// Maximum number of restarts of an enqueue because a parent changed state meanwhile.
const TRIES_MAX: usize = 20;
/// Maximum number of jobs stored by one statement.
const STATEMENT_MAX_JOBS: usize = 2_000;

/// Stores jobs with their events and their rows in the tables that claims read.
pub(crate) async fn enqueue(
    store: &Core,
    jobs: &[NewJob],
    dispatched_by: DispatchedBy,
) -> Result<Vec<Stored>, StoreError> {
    let error = |error| store.sessions.error(error);
    prepare(store, jobs).await?;
    let several = jobs.iter().any(|job| job.spec.unique_key.is_some() || has_family(job)) || any_old(store, jobs);
    // The id of an occurrence is derived from its time, so another process may have stored the same occurrence.
    let derived = jobs.iter().any(|job| job.spec.options.occurrence.is_some());
    let mut ids = if derived { Ids::Unknown } else { Ids::New };
    let mut tries = 0;
    let enqueued = loop {
        let unit = if several { store.sessions.several().await } else { store.sessions.single().await };
        let mut unit = unit.map_err(error)?;
        let enqueued = Enqueue { store, ids, dispatched_by }.run(&mut unit, jobs).await;
        match unit.ended(enqueued).await {
            Err(refused) if ids == Ids::New && error::is_unique_violation(&refused) => ids = Ids::Unknown,
            // A parent changed state between being read and being locked.
            Err(refused) if tries < TRIES_MAX && error::is_concurrent_change(&refused) => tries += 1,
            Err(refused) if tries < TRIES_MAX && error::is_partition_conflict(&refused) => {
                tries += 1;
                // Waits for the process that creates the partition, or creates it if that process was killed.
                make_days_of(store, jobs, Effort::Any).await?;
            }
            enqueued => break enqueued.map_err(error)?,
        }
    };
    announce(store, jobs, dispatched_by);
    Ok(enqueued)
}

/// Like [`enqueue`], with a timeout for the server's answer.
pub(crate) async fn enqueue_in_time(store: &Core, jobs: &[NewJob]) -> Result<Vec<Stored>, StoreError> {
    let patience = if jobs.len() > STATEMENT_MAX_JOBS { Patience::Usual } else { Patience::Short };
    store.sessions.within(patience, enqueue(store, jobs, store.enqueue_dispatched_by())).await
}

/// Notifies claims of stored jobs.
pub(crate) fn announce(store: &Core, jobs: &[NewJob], dispatched_by: DispatchedBy) {
    store.lanes.put_all(jobs);
    store.scan_bounds.scheduled_all(jobs);
    let queues = store.queues.known();
    let is_announced_here = |job: &NewJob| {
        job.spec.options.concurrency_key.is_some() || queues.guards(&job.spec.queue) || !job.parents.is_empty()
    };
    // The dispatcher notifies the workers that wait for its jobs; it does not know limited jobs and jobs with parents.
    if dispatched_by == DispatchedBy::Loader || !store.options.dispatched || jobs.iter().any(is_announced_here) {
        store.hints.notify_work();
    }
}

/// Creates the lanes and partitions that the jobs need, outside of the transaction that stores them: other transactions
/// may need them too and must not wait for it.
pub(crate) async fn prepare(store: &Core, jobs: &[NewJob]) -> Result<(), StoreError> {
    let error = |error| store.sessions.error(error);
    let lanes = store.lanes.unknown(jobs);
    if !lanes.is_empty() {
        let mut unit = store.sessions.single().await.map_err(error)?;
        store.lanes.add(&mut unit, lanes).await.map_err(error)?;
        unit.done().await.map_err(error)?;
    }
    make_days_of(store, jobs, Effort::Low).await
}

/// Creates missing partitions for the days of jobs that are near enough.
async fn make_days_of(store: &Core, jobs: &[NewJob], effort: Effort) -> Result<(), StoreError> {
    let error = |error| store.sessions.error(error);
    let today = Day::of(store.clock_now());
    // The jobs' events are stored in the partition of today.
    let days: BTreeSet<Day> = jobs.iter().map(|job| Day::of(job.id.timestamp())).chain([today]).collect();
    let near = |day: &Day| (today..=today.plus(HORIZON_DAYS)).contains(day) && !store.days.has(*day);
    for day in days.into_iter().filter(near) {
        partition_creation::create(store, day, effort).await.map_err(error)?;
    }
    Ok(())
}

/// Whether a job has parents or belongs to a workflow.
fn has_family(job: &NewJob) -> bool {
    !job.parents.is_empty() || job.spec.workflow_node().is_some()
}

/// Whether a job is scheduled for a day whose partition retention may replace.
fn any_old(store: &Core, jobs: &[NewJob]) -> bool {
    let now = store.clock_now();
    jobs.iter().any(|job| old_partitions::is_old(Day::of(job.id.timestamp()), now))
}

/// What is known about the jobs' ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// All are assumed to be new; if one is not, an error reports it and ends the transaction.
    New,
    /// Some may already be stored.
    Unknown,
}

/// An enqueue within a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Enqueue<'a> {
    pub(crate) store: &'a Core,
    pub(crate) ids: Ids,
    pub(crate) dispatched_by: DispatchedBy,
}

impl Enqueue<'_> {
    /// Stores jobs, without creating lanes and partitions.
    pub(crate) async fn run(self, connection: &mut PgConnection, jobs: &[NewJob]) -> sqlx::Result<Vec<Stored>> {
        let with_parents = jobs.iter().any(|job| !job.parents.is_empty());
        // Parents are locked before the keys, in the same order as operators' changes.
        let parents = if with_parents && !keys::need_order(jobs) {
            flow::lock_parents(connection, jobs, self.store.clock_now()).await?
        } else {
            JobStates::new()
        };
        self.run_with_parents(connection, jobs, &parents).await
    }

    /// Like `run`, with the parents already locked.
    pub(crate) async fn run_with_parents(
        self,
        connection: &mut PgConnection,
        jobs: &[NewJob],
        parents: &JobStates,
    ) -> sqlx::Result<Vec<Stored>> {
        if any_old(self.store, jobs) {
            old_partitions::share(connection).await?;
        }
        if keys::need_order(jobs) {
            return self.run_in_order(connection, jobs).await;
        }
        let known = self.known_with_keys(connection, jobs).await?;
        let mut holders = keys::take(self.store, connection, jobs, &known).await?;
        if self.ids == Ids::New {
            forget_repeated(connection, jobs, &mut holders).await?;
        }
        self.store_new(connection, jobs, parents, &KeyCheck { holders, known }).await
    }

    /// The jobs with unique keys that are already stored, if some may be.
    async fn known_with_keys(self, connection: &mut PgConnection, jobs: &[NewJob]) -> sqlx::Result<HashSet<JobId>> {
        let keyed: Vec<&NewJob> = jobs.iter().filter(|job| job.spec.unique_key.is_some()).collect();
        if self.ids == Ids::New || keyed.is_empty() { Ok(HashSet::new()) } else { known(connection, &keyed).await }
    }

    /// Stores jobs one after the other, so that each sees the effects of the previous one.
    async fn run_in_order(self, connection: &mut PgConnection, jobs: &[NewJob]) -> sqlx::Result<Vec<Stored>> {
        let store = self.store;
        let (scopes, keys): (Vec<String>, Vec<String>) = jobs.iter().filter_map(keys::key_of).unzip();
        sqlx::query(*sql::KEYS_ALONE).bind(&scopes).bind(&keys).execute(&mut *connection).await?;
        // Locks all jobs that may have to be locked, at once and in order.
        let query = sqlx::query_scalar::<_, Uuid>(*sql::KEYS_HOLDERS).bind(scopes).bind(keys);
        let mut locked: BTreeSet<JobId> = query.fetch_all(&mut *connection).await?.into_iter().map(job_id).collect();
        locked.extend(jobs.iter().flat_map(|job| job.parents.iter().copied()));
        let states = locking::lock(connection, &locked, &BTreeSet::new(), store.clock_now()).await?;
        states.ok_or_else(error::concurrent_change)?;
        locked.extend(jobs.iter().map(|job| job.id));
        let mut answers = Vec::with_capacity(jobs.len());
        let mut found = KeyCheck { known: self.known_with_keys(connection, jobs).await?, ..KeyCheck::default() };
        for job in jobs {
            let one = std::slice::from_ref(job);
            let parents: JobStates = locking::states(connection, &job.parents.iter().copied().collect()).await?;
            found.holders = keys::take(store, connection, one, &found.known).await?;
            if self.ids == Ids::New {
                forget_repeated(connection, one, &mut found.holders).await?;
            }
            let existing = |enqueued| Stored { enqueued, at: Timestamp::MIN };
            answers.push(match found.holders.get(&job.id) {
                _ if found.known.contains(&job.id) => existing(Enqueued::existing(job.id)),
                Some(holder) if !job.spec.unique().updates() => existing(Enqueued::existing(*holder)),
                // Another transaction has taken the key meanwhile, and may be changing its job.
                Some(holder) if !locked.contains(holder) => return Err(error::concurrent_change()),
                Some(holder) => {
                    let updated = keys::update(store, connection, *holder, job).await?;
                    existing(Enqueued { updated, ..Enqueued::existing(*holder) })
                }
                None => self.store_new(connection, one, &parents, &found).await?[0],
            });
            // The same id may occur twice.
            if !found.holders.contains_key(&job.id) {
                found.known.insert(job.id);
            }
        }
        Ok(answers)
    }

    /// Stores the jobs that have no conflict.
    async fn store_new(
        self,
        connection: &mut PgConnection,
        jobs: &[NewJob],
        parents: &JobStates,
        KeyCheck { holders, known }: &KeyCheck,
    ) -> sqlx::Result<Vec<Stored>> {
        let free: Vec<&NewJob> = jobs.iter().filter(|job| !holders.contains_key(&job.id)).collect();
        let new = if free.iter().any(|job| has_family(job)) {
            self.insert_families(connection, &free, parents).await?
        } else {
            self.insert(connection, &free, None).await?
        };
        // A job that another transaction stored since the check took its key then. The transaction is rolled back and
        // the check is repeated.
        let is_known = |job: &NewJob| new.ids.contains(&job.id) || known.contains(&job.id);
        if free.iter().any(|job| job.spec.unique_key.is_some() && !is_known(job)) {
            return Err(error::concurrent_change());
        }
        let (mut unanswered, at) = (new.ids, new.at);
        let answer = |job: &NewJob| match holders.get(&job.id) {
            Some(holder) => Enqueued::existing(*holder),
            // An id that occurs twice is new once.
            None if unanswered.remove(&job.id) => Enqueued::new(job.id),
            None => Enqueued::existing(job.id),
        };
        Ok(jobs.iter().map(answer).map(|enqueued| Stored { enqueued, at }).collect())
    }

    /// Stores jobs of which some have parents or belong to a workflow; returns those that were not stored before.
    async fn insert_families(
        self,
        connection: &mut PgConnection,
        jobs: &[&NewJob],
        parents: &JobStates,
    ) -> sqlx::Result<New> {
        let known = if self.ids == Ids::Unknown { known(connection, jobs).await? } else { HashSet::new() };
        let beginnings = Beginnings::of(jobs, parents)?;
        let waits = |job: &NewJob| beginnings.next(job.id).is_some_and(|next| *next != Next::Start);
        let (waiting, starting): (Vec<&NewJob>, Vec<&NewJob>) =
            jobs.iter().copied().filter(|job| !known.contains(&job.id)).partition(|job| waits(job));
        // The enqueuer does not know which of the jobs with parents may start.
        let any_parents = starting.iter().any(|job| !job.parents.is_empty());
        let dispatched_by = if any_parents { self.store.dispatched_by() } else { self.dispatched_by };
        let starts = Self { dispatched_by, ..self };
        let mut new = New::none();
        for part in starting.chunks(STATEMENT_MAX_JOBS) {
            new.add(starts.insert(connection, part, None).await?);
        }
        for part in waiting.chunks(STATEMENT_MAX_JOBS) {
            let waits: Vec<Waiting> = part.iter().map(|job| beginnings.waiting(job.id)).collect();
            new.add(Self { ids: Ids::New, ..starts }.insert(connection, part, Some(&waits)).await?);
        }
        let joining: Vec<&NewJob> = jobs.iter().copied().filter(|job| new.ids.contains(&job.id)).collect();
        beginnings.join(self.store, connection, &joining).await?;
        Ok(new)
    }

    /// Stores jobs that either all start or all wait for parents; returns those that were not stored before.
    async fn insert(
        self,
        connection: &mut PgConnection,
        jobs: &[&NewJob],
        waiting: Option<&[Waiting]>,
    ) -> sqlx::Result<New> {
        if jobs.is_empty() {
            return Ok(New::none());
        }
        let options = |job: &&NewJob| {
            let options = &job.spec.options;
            if *options == Default::default() { Ok(None) } else { rows::text(options).map(Some) }
        };
        let options = jobs.iter().map(options).collect::<sqlx::Result<Vec<_>>>()?;
        let (first, alike) = (jobs[0], waiting.is_none() && jobs.windows(2).all(|pair| are_alike(pair[0], pair[1])));
        let with_part = !jobs.iter().all(|job| is_plain(job));
        macro_rules! column {
            ($job:ident, $value:expr) => {
                jobs.iter().map(|$job| $value).collect::<Vec<_>>()
            };
        }
        let forms = if self.ids == Ids::New { &sql::ENQUEUE } else { &sql::ENQUEUE_UNKNOWN };
        let forms = &forms[self.dispatched_by as usize];
        let text = if waiting.is_some() { *sql::ENQUEUE_WAITING } else { forms.of(alike, with_part) };
        let mut query = sqlx::query(text)
            .bind(self.store.sessions.clock())
            .bind(column!(job, uuid(job.id)))
            .bind(column!(job, At(job.id.timestamp())))
            .bind(column!(job, job.spec.payload.as_str()))
            .bind(some_of(options))
            .bind(some_of(column!(job, job.spec.unique_key.as_deref())));
        // Binds the value of the first job for all, or an array with a value per job.
        macro_rules! bind {
            ($job:ident, $value:expr) => {
                query = if alike {
                    let $job = first;
                    query.bind($value)
                } else {
                    query.bind(column!($job, $value))
                };
            };
        }
        bind!(job, job.delay.map(|delay| delay.as_micros() as i64));
        bind!(job, job.spec.name.as_str());
        bind!(job, job.spec.queue.as_str());
        bind!(job, i16::from(job.spec.priority));
        bind!(job, job.spec.max_attempts as i32);
        bind!(job, job.spec.timeout.as_millis() as i64);
        bind!(job, job.spec.user_id.as_deref());
        bind!(job, job.spec.correlation_id.as_deref());
        bind!(job, job.spec.workflow_id.map(|id| Uuid::from_u128(id.to_bits())));
        bind!(job, job.spec.keep_for.map(|keep| keep.as_millis() as i64));
        bind!(job, job.spec.ephemeral);
        let lanes = self.store.lanes.numbers(jobs.iter().copied());
        query = if alike { query.bind(lanes[0]) } else { query.bind(lanes) };
        if let Some(waiting) = waiting {
            query = query.bind(waiting.iter().map(|waits| waits.on as i32).collect::<Vec<_>>());
            query = query.bind(waiting.iter().map(|waits| waits.any_failed).collect::<Vec<_>>());
        }
        New::of(&query.fetch_all(connection).await?, jobs, self.ids)
    }
}

/// The results of checking unique keys before the jobs are stored.
#[derive(Default)]
struct KeyCheck {
    /// By job: the conflicting job that holds its key.
    holders: HashMap<JobId, JobId>,
    /// Jobs that are already stored. Their keys stay as they are: a repeated enqueue takes none, and frees none.
    known: HashSet<JobId>,
}

/// A repeated enqueue returns its own job, whichever job holds the key now. Such a job has no conflict here; storing it
/// then fails because its id exists, and the enqueue restarts with [`Ids::Unknown`].
async fn forget_repeated(
    connection: &mut PgConnection,
    jobs: &[NewJob],
    holders: &mut HashMap<JobId, JobId>,
) -> sqlx::Result<()> {
    let refused: Vec<&NewJob> = jobs.iter().filter(|job| holders.contains_key(&job.id)).collect();
    if !refused.is_empty() {
        let known = known(connection, &refused).await?;
        holders.retain(|job, _| !known.contains(job));
    }
    Ok(())
}

/// The jobs that were not stored before, and when they were stored.
struct New {
    ids: HashSet<JobId>,
    at: Timestamp,
}

impl New {
    /// From the rows that the statement returns for these jobs; if all ids are new, a row only tells the time.
    fn of(stored: &[PgRow], jobs: &[&NewJob], ids: Ids) -> sqlx::Result<Self> {
        let at = stored.first().map(|row| rows::instant(row, 1)).transpose()?.unwrap_or(Timestamp::MIN);
        let ids = match ids {
            Ids::New => jobs.iter().map(|job| job.id).collect(),
            Ids::Unknown => stored.iter().map(|row| row.try_get(0).map(job_id)).collect::<sqlx::Result<_>>()?,
        };
        Ok(Self { ids, at })
    }

    fn none() -> Self {
        Self { ids: HashSet::new(), at: Timestamp::MIN }
    }

    fn add(&mut self, more: Self) {
        self.ids.extend(more.ids);
        self.at = self.at.max(more.at);
    }
}

/// The jobs that are already stored.
async fn known(connection: &mut PgConnection, jobs: &[&NewJob]) -> sqlx::Result<HashSet<JobId>> {
    let (ids, times) = locking::ids_and_times(jobs.iter().map(|job| &job.id));
    let known: Vec<Uuid> = sqlx::query_scalar(*sql::KNOWN_JOBS).bind(ids).bind(times).fetch_all(connection).await?;
    Ok(known.into_iter().map(job_id).collect())
}

/// Whether two jobs differ only in columns that are always arrays: id, time, payload, options and unique key.
fn are_alike(one: &NewJob, other: &NewJob) -> bool {
    let (a, b) = (&one.spec, &other.spec);
    lanes::same(a, b)
        && (one.delay, a.max_attempts) == (other.delay, b.max_attempts)
        && (a.timeout, &a.user_id, &a.correlation_id) == (b.timeout, &b.user_id, &b.correlation_id)
        && (a.workflow_id, a.keep_for, a.ephemeral) == (b.workflow_id, b.keep_for, b.ephemeral)
}

/// Whether a job has no optional attribute that needs rows in other tables.
fn is_plain(job: &NewJob) -> bool {
    let spec = &job.spec;
    let of_schedule = spec.options.occurrence.is_some();
    let labelled =
        spec.user_id.is_some() || spec.correlation_id.is_some() || !spec.options.tags.is_empty() || of_schedule;
    job.delay.is_none() && !spec.ephemeral && !labelled && spec.options.concurrency_key.is_none()
}
