//! The state of the model, and its changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Change, Changed, Claim, ClaimRequest, Claimed, Enqueued, Event, EventId, Filter,
    IdempotentRequest, Job, JobId, JobPage, LeaseGrant, Lock, LogLine, NewJob, Notification, Order, Page, Queue,
    QueueEvent, QueueSave, Refused, RetentionPolicy, Schedule, ScheduleEvent, ScheduleSave, Settled, Settlement,
    Status, StoreResult, Timestamp, Token, Verb, WorkerId, WorkerRecord, Workflow, WorkflowId, change,
    flow::Next,
    limits,
    measure::{self, Measure},
    transfer::Dependency,
};

use super::limiter::{Limiters, Slot};

/// The order of jobs with the same priority and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The order in which they were enqueued.
    #[default]
    Arrival,
    /// Their ids: the same order unless they were scheduled for different times.
    Id,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) ties: Ties,
    /// In the order in which they were enqueued.
    pub(super) jobs: Vec<Record>,
    /// The holder of each unique key, and when the key expires.
    pub(super) keys: BTreeMap<(String, String), (JobId, Option<Timestamp>)>,
    pub(super) rollups: BTreeMap<(Timestamp, String, String, Measure, u16), u64>,
    pub(super) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(super) schedules: BTreeMap<String, Schedule>,
    pub(super) schedule_events: Vec<(String, ScheduleEvent)>,
    pub(super) locks: BTreeMap<String, HeldLock>,
    pub(super) notifications: Vec<Notification>,
    pub(super) last_notification: u64,
    pub(super) tokens: Vec<Token>,
    pub(super) requests: BTreeMap<String, IdempotentRequest>,
    pub(super) events: u64,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) queue_events: Vec<(String, QueueEvent)>,
    /// Recent starts of queues and their keys, and their turns.
    pub(super) limits: Limiters,
    /// Slots of executions whose jobs were cancelled, each with its queue.
    pub(super) slots: Vec<Slot>,
    pub(super) dependencies: Vec<Dependency>,
    /// Jobs that kept waiting although one of their parents failed.
    pub(super) saw_failure: BTreeSet<JobId>,
    pub(super) workflows: BTreeMap<WorkflowId, Workflow>,
    /// The jobs of workflows and their callbacks, by their names in the workflow.
    pub(super) nodes: BTreeMap<(WorkflowId, String), JobId>,
    /// Jobs that have ended, until the consequences are applied.
    pub(super) ended: BTreeMap<JobId, Status>,
}

pub(super) struct Record {
    pub(super) job: Job,
    pub(super) attempts: Vec<Attempt>,
    pub(super) events: Vec<Event>,
    pub(super) logs: BTreeMap<(u32, u32), LogLine>,
    /// The execution whose handler is about to start, as confirmed by its worker.
    pub(super) confirmed: Option<u32>,
    /// Whether its last execution was limited.
    pub(super) was_limited: bool,
}

impl Record {
    /// The claim of its worker, if it has one.
    pub(super) fn claim(&self) -> Option<Claim> {
        let claim = Claim::new(Box::new(self.job.clone()), self.job.worker_id?);
        Some(Claim { confirmed: self.confirmed == Some(self.job.run), ..claim })
    }
}

pub(super) struct HeldLock {
    pub(super) owner: Option<String>,
    pub(super) token: u64,
    pub(super) expires_at: Timestamp,
}

/// An event of a job that is to be recorded.
pub(super) struct NewEvent<'a> {
    pub(super) at: Timestamp,
    pub(super) status: Status,
    pub(super) run: Option<u32>,
    pub(super) cause: Cause<'a>,
}

impl NewEvent<'_> {
    pub(super) const fn new(at: Timestamp, status: Status) -> Self {
        Self { at, status, run: None, cause: Cause { actor: None, detail: None } }
    }
}

/// The cause of an event: who acted, and why.
#[derive(Clone, Copy)]
pub(super) struct Cause<'a> {
    pub(super) actor: Option<&'a str>,
    pub(super) detail: Option<&'a str>,
}

impl State {
    /// The order of jobs with the same time.
    pub(super) fn rank(&self, index: usize) -> u128 {
        match self.ties {
            Ties::Arrival => index as u128,
            Ties::Id => self.jobs[index].job.id.to_bits(),
        }
    }

    pub(super) fn find(&mut self, id: JobId) -> Option<&mut Record> {
        self.jobs.iter_mut().find(|record| record.job.id == id)
    }

    pub(super) fn event(&mut self, id: JobId, new: NewEvent<'_>) {
        self.events += 1;
        let NewEvent { at, status, run, cause } = new;
        let (actor, detail) = (cause.actor.map(str::to_owned), cause.detail.map(str::to_owned));
        let event = Event { id: EventId::new(at, self.events), at, status, run, actor, detail };
        if let Some(record) = self.find(id) {
            record.events.push(event);
        }
    }

    pub(super) fn rollup(&mut self, now: Timestamp, job: &Job, measure: Measure, took: Duration) {
        let key = (measure::hour(now), job.spec.name.clone(), job.spec.queue.clone(), measure, measure::bucket(took));
        *self.rollups.entry(key).or_default() += 1;
    }

    /// Stores all jobs or none.
    pub(super) fn enqueue_all(&mut self, now: Timestamp, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.check_parents(now, &jobs)?;
        let enqueued = jobs.into_iter().map(|job| self.enqueue(now, job)).collect();
        self.follow(now);
        Ok(enqueued)
    }

    fn enqueue(&mut self, now: Timestamp, new: NewJob) -> Enqueued {
        if self.find(new.id).is_some() {
            return Enqueued::existing(new.id);
        }
        let key = new.spec.unique_key().map(|(scope, key)| (scope, key.to_owned()));
        if let Some(holder) = key.as_ref().and_then(|key| self.in_the_way(now, key, &new)) {
            return Enqueued { updated: self.update(now, holder, &new), ..Enqueued::existing(holder) };
        }
        let expires_at = new.spec.unique().expires_at(now);
        let (id, waiting, next) = (new.id, self.join(&new), self.begin(&new));
        let mut job = new.into_job(now);
        job.waiting_on = waiting;
        if next != Next::Start {
            job.status = Status::Waiting;
        }
        let (status, node) = (job.status, job.workflow_node().map(|(workflow, node)| (workflow, node.to_owned())));
        self.jobs.push(Record {
            job,
            attempts: Vec::new(),
            events: Vec::new(),
            logs: BTreeMap::new(),
            confirmed: None,
            was_limited: false,
        });
        self.event(id, NewEvent::new(now, status));
        self.keys.extend(key.map(|key| (key, (id, expires_at))));
        if let Some(node) = node {
            self.take_node(now, id, node);
        }
        if let Next::Cancel(reason) = next {
            self.cancel(now, id, &reason);
        }
        Enqueued::new(id)
    }

    /// The job that holds the unique key of a new one, if there is a conflict.
    pub(super) fn in_the_way(&mut self, now: Timestamp, key: &(String, String), new: &NewJob) -> Option<JobId> {
        let (holder, expires_at) = *self.keys.get(key)?;
        let status = self.find(holder)?.job.status;
        new.spec.unique().conflicts(status, expires_at, now).then_some(holder)
    }

    /// A new job that is not stored may change the existing one; returns whether it does.
    fn update(&mut self, now: Timestamp, holder: JobId, new: &NewJob) -> bool {
        let (unique, (_, run_at)) = (new.spec.unique(), new.start(now));
        let Some(record) = self.find(holder) else { return false };
        let job = &mut record.job;
        let Some(update) = unique.update(job.status, job.run_at, run_at) else { return false };
        if update.payload {
            job.spec.payload = new.spec.payload.clone();
        }
        job.run_at = update.run_at.unwrap_or(job.run_at);
        job.updated_at = now;
        let status = job.status;
        let cause = Cause { actor: None, detail: Some(update.detail()) };
        self.event(holder, NewEvent { cause, ..NewEvent::new(now, status) });
        true
    }

    pub(super) fn promote(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut due: Vec<(Timestamp, u128, usize, JobId)> = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, record)| record.job.status.is_timed() && record.job.run_at <= now)
            .map(|(index, record)| (record.job.run_at, self.rank(index), index, record.job.id))
            .collect();
        due.sort();
        due.truncate(limit);
        for (_, _, index, id) in &due {
            let job = &mut self.jobs[*index].job;
            job.status = Status::Queued;
            job.updated_at = now;
            self.event(*id, NewEvent::new(now, Status::Queued));
        }
        due.len()
    }

    pub(super) fn claim(&mut self, now: Timestamp, request: &ClaimRequest) -> Claimed {
        self.promote(now, limits::PROMOTE_MAX_JOBS);
        let (indexes, opens_at) = self.apply_limits(now, request);
        let mut claims: Vec<Claim> = indexes.into_iter().map(|index| self.hold(now, now, index, request)).collect();
        claims.extend(self.claim_ahead(now, request, request.limit - claims.len()));
        let timed = self.jobs.iter().filter(|record| record.job.status.is_timed());
        Claimed { claims, next_run_at: timed.map(|record| record.job.run_at).min(), opens_at }
    }

    pub(super) fn serves(&self, request: &ClaimRequest, job: &Job) -> bool {
        let paused = self.queues.get(&job.spec.queue).is_some_and(|queue| queue.settings.paused);
        !paused && request.serves(&job.spec.queue, &job.spec.name) && request.suspects == job.is_suspect()
    }

    pub(super) fn save_queue(&mut self, now: Timestamp, save: QueueSave) -> bool {
        let QueueSave { name, settings, revision, actor, action } = save;
        let fits = self.queues.get(&name).map_or(0, |queue| queue.revision) == revision;
        if fits {
            let former = self.queues.get(&name).map(|queue| queue.settings.limits.clone()).unwrap_or_default();
            if former != settings.limits {
                self.limits.limits_changed(&name, now);
            }
            let queue = Queue {
                name: name.clone(),
                settings,
                revision: revision + 1,
                updated_at: now,
                updated_by: actor.clone(),
            };
            self.queues.insert(name.clone(), queue);
            self.queue_events.push((name, QueueEvent { at: now, actor, action }));
        }
        fits
    }

    pub(super) fn claim_ahead(&mut self, now: Timestamp, request: &ClaimRequest, limit: usize) -> Vec<Claim> {
        let mut indexes: Vec<usize> = (0..self.jobs.len())
            .filter(|index| {
                let job = &self.jobs[*index].job;
                job.status.is_timed()
                    && (now..=now.after(request.ahead)).contains(&job.run_at)
                    && self.serves(request, job)
                    && !self.is_limited(job)
            })
            .collect();
        indexes.sort_by_key(|index| (self.jobs[*index].job.run_at, self.rank(*index)));
        indexes.truncate(limit);
        let claim = |index: usize| {
            let (id, at) = (self.jobs[index].job.id, self.jobs[index].job.run_at);
            self.event(id, NewEvent::new(at, Status::Queued));
            self.hold(now, at, index, request)
        };
        indexes.into_iter().map(claim).collect()
    }

    /// Hands a job to a worker, which starts it at the time `at`.
    pub(super) fn hold(&mut self, now: Timestamp, at: Timestamp, index: usize, request: &ClaimRequest) -> Claim {
        let was_limited = self.is_limited(&self.jobs[index].job);
        let record = &mut self.jobs[index];
        record.was_limited = was_limited;
        let job = &mut record.job;
        let lease = LeaseGrant { worker: request.worker, from: at, duration: request.lease };
        job.begin(job.run + 1, job.attempt + 1, lease);
        record.attempts.push(Attempt {
            id: AttemptId { job: job.id, run: job.run },
            attempt: job.attempt,
            status: AttemptStatus::Running,
            worker_id: request.worker,
            started_at: at,
            finished_at: None,
            error: None,
        });
        let job = job.clone();
        self.event(job.id, NewEvent { run: Some(job.run), ..NewEvent::new(at, Status::Processing) });
        self.rollup(now, &job, Measure::Lateness, at.since(job.run_at));
        Claim::new(Box::new(job), request.worker)
    }

    /// The record of an attempt that is in progress and held by the worker.
    pub(super) fn held(&mut self, attempt: AttemptId, worker: WorkerId) -> Option<&mut Record> {
        let record = self.find(attempt.job)?;
        let job = &record.job;
        let holds = job.status == Status::Processing && job.run == attempt.run && job.worker_id == Some(worker);
        holds.then_some(record)
    }

    pub(super) fn confirm(&mut self, now: Timestamp, attempt: AttemptId, worker: WorkerId) -> bool {
        let held = self.held(attempt, worker).filter(|record| record.job.lease_until.is_some_and(|until| until > now));
        held.map(|record| record.confirmed = Some(attempt.run)).is_some()
    }

    pub(super) fn end_leases(&mut self, now: Timestamp, worker: WorkerId) -> usize {
        self.slots.retain(|slot| slot.worker != worker);
        let held = self.jobs.iter_mut().filter(|record| record.job.worker_id == Some(worker));
        let live = held.filter(|record| record.job.lease_until.is_some_and(|until| until > now));
        live.map(|record| record.job.lease_until = Some(now)).count()
    }

    pub(super) fn settle_all(&mut self, now: Timestamp, settlements: Vec<Settlement>) -> Vec<Settled> {
        let settled = settlements.into_iter().map(|one| self.settle(now, one)).collect();
        self.follow(now);
        settled
    }

    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        let Some(record) = self.held(settlement.attempt, settlement.worker) else {
            if !settlement.only_if_expired {
                self.release_slots(settlement.worker, &[settlement.attempt]);
            }
            return Settled::Stale;
        };
        if settlement.only_if_expired && record.job.lease_until.is_some_and(|until| until > now) {
            return Settled::Stale;
        }
        let ending = settlement.ending;
        let before = record.job.clone();
        close_attempt(record, now, settlement.attempt_status, settlement.fault.clone());
        let job = &mut record.job;
        job.status = ending.status();
        job.run_at = ending.run_at(job.run_at, now);
        job.attempt -= u32::from(settlement.gives_back_attempt());
        job.crash_count += u32::from(settlement.attempt_status == AttemptStatus::Lost);
        job.updated_at = now;
        job.finished_at = job.status.is_finished().then_some(now);
        job.worker_id = None;
        job.lease_until = None;
        job.result = settlement.result.or(job.result.take());
        job.error = settlement.fault.or(job.error.take());
        for step in ending.path() {
            self.event(before.id, NewEvent { run: Some(before.run), ..NewEvent::new(now, *step) });
        }
        let took = now.since(before.started_at.unwrap_or(now));
        self.rollup(now, &before, Measure::Ended(settlement.attempt_status), took);
        if ending.status() == Status::Dead {
            self.rollup(now, &before, Measure::Died, took);
        }
        self.moved(now, before.id, before.status, ending.status());
        Settled::Done
    }

    pub(super) fn change_all(&mut self, now: Timestamp, changes: Vec<Change>) -> Vec<Changed> {
        let changed = changes.into_iter().map(|change| self.change(now, change)).collect();
        self.follow(now);
        changed
    }

    fn change(&mut self, now: Timestamp, change: Change) -> Changed {
        let Some(record) = self.find(change.job) else { return Changed::NotFound };
        let before = record.job.clone();
        if let Err(refused) = self.retake_key(now, change.verb, &before) {
            return Changed::Refused(refused);
        }
        let Some(record) = self.find(change.job) else { return Changed::NotFound };
        match change::apply(change.verb, &mut record.job, now) {
            Ok(true) => Changed::Already,
            Err(refused) => Changed::Refused(refused),
            Ok(false) => {
                let cause = Cause { actor: Some(&change.actor), detail: change.reason.as_deref() };
                self.changed(now, &before, cause);
                Changed::Done
            }
        }
    }

    /// A job that is to run again takes its unique key, unless there is a conflict.
    fn retake_key(&mut self, now: Timestamp, verb: Verb, job: &Job) -> Result<(), Refused> {
        let Some((scope, key)) = change::needed_key(verb, job) else { return Ok(()) };
        let key = (scope, key.to_owned());
        let held = self.keys.get(&key).copied();
        let holder = held.and_then(|(holder, expires_at)| {
            let status = self.find(holder)?.job.status;
            Some(change::KeyHolder { job: holder, status, expires_at })
        });
        if let change::KeyChange::Take(expires_at) = change::retake_key(verb, job, holder, now)? {
            self.keys.insert(key, (job.id, expires_at));
        }
        Ok(())
    }

    /// Applies the consequences of a change of a job's row.
    pub(super) fn changed(&mut self, now: Timestamp, before: &Job, cause: Cause<'_>) {
        let Some(record) = self.find(before.id) else { return };
        let status = record.job.status;
        let was_running = before.status == Status::Processing;
        if was_running {
            close_attempt(record, now, AttemptStatus::Cancelled, None);
            if record.was_limited {
                self.occupy_slot(now, before);
            }
            let took = now.since(before.started_at.unwrap_or(now));
            self.rollup(now, before, Measure::Ended(AttemptStatus::Cancelled), took);
        }
        if matches!(status, Status::Cancelled | Status::Deleted) {
            self.keys.retain(|_, (holder, _)| *holder != before.id);
        }
        self.event(before.id, NewEvent { at: now, status, run: was_running.then_some(before.run), cause });
        self.moved(now, before.id, before.status, status);
    }

    pub(super) fn expire(&mut self, now: Timestamp, keep: RetentionPolicy, limit: usize) -> usize {
        let over = |job: &Job| {
            let finished = job.finished_at?;
            let kept = job.spec.keep_for.unwrap_or(keep.of(job.status));
            (job.status.is_finished() && job.status != Status::Deleted && finished.after(kept) <= now)
                .then_some((finished, job.id))
        };
        let mut ids: Vec<_> = self.jobs.iter().filter_map(|record| over(&record.job)).collect();
        ids.truncate(limit);
        for (_, id) in &ids {
            let Some(record) = self.find(*id) else { continue };
            let before = record.job.clone();
            if change::keep_for_unique_key(&mut record.job, now) {
                continue;
            }
            if change::apply(Verb::Delete, &mut record.job, now).is_ok() {
                self.changed(now, &before, Cause { actor: Some("retention"), detail: None });
            }
        }
        self.follow(now);
        ids.len()
    }

    /// Removes at most `limit` of the matching jobs, with all their data.
    pub(super) fn remove(&mut self, now: Timestamp, limit: usize, fits: impl Fn(&Job) -> bool) -> usize {
        let gone: Vec<JobId> =
            self.jobs.iter().map(|record| &record.job).filter(|job| fits(job)).map(|job| job.id).take(limit).collect();
        self.lose(now, &gone);
        self.jobs.retain(|record| !gone.contains(&record.job.id));
        self.keys.retain(|_, (holder, _)| !gone.contains(holder));
        gone.len()
    }

    pub(super) fn list(&self, filter: &Filter, page: &Page) -> Option<JobPage> {
        let mut indexes: Vec<usize> =
            (0..self.jobs.len()).filter(|index| filter.selects(&self.jobs[*index].job)).collect();
        indexes.sort_by_key(|index| {
            let job = &self.jobs[*index].job;
            (filter.time_of(job), if filter.order() == Order::Newest { job.id.to_bits() } else { self.rank(*index) })
        });
        if filter.order() != Order::Due {
            indexes.reverse();
        }
        let start = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        let rest = indexes.len().saturating_sub(start);
        let jobs: Vec<Job> =
            indexes.into_iter().skip(start).take(page.limit).map(|index| self.jobs[index].job.clone()).collect();
        let next = (rest > jobs.len()).then(|| (start + jobs.len()).to_string());
        Some(JobPage { jobs, next })
    }

    pub(super) fn lock(&mut self, now: Timestamp, name: String, owner: String, ttl: Duration) -> Option<Lock> {
        let held = self.locks.entry(name.clone()).or_insert(HeldLock { owner: None, token: 0, expires_at: now });
        let free = held.expires_at <= now || held.owner.as_ref().is_none_or(|holder| *holder == owner);
        free.then(|| {
            held.owner = Some(owner.clone());
            held.token += 1;
            held.expires_at = now.after(ttl);
            Lock { name, owner, token: held.token, expires_at: held.expires_at }
        })
    }

    pub(super) fn save_schedule(&mut self, now: Timestamp, save: ScheduleSave) -> bool {
        let ScheduleSave { mut schedule, is_new, jobs, done } = save;
        let fits = match self.schedules.get(&schedule.spec.name) {
            Some(known) => !is_new && (known.id, known.revision) == (schedule.id, schedule.revision),
            None => is_new,
        };
        if fits {
            schedule.revision += 1;
            if let Some(action) = done {
                let event = ScheduleEvent { at: now, actor: schedule.updated_by.clone(), action };
                self.schedule_events.push((schedule.spec.name.clone(), event));
            }
            self.schedules.insert(schedule.spec.name.clone(), schedule);
            for job in jobs {
                self.enqueue(now, job);
            }
            self.follow(now);
        }
        fits
    }

    pub(super) fn own_lock(&mut self, now: Timestamp, name: &str, owner: &str) -> Option<&mut HeldLock> {
        let held = self.locks.get_mut(name)?;
        (held.owner.as_deref() == Some(owner) && held.expires_at > now).then_some(held)
    }
}

fn close_attempt(record: &mut Record, now: Timestamp, status: AttemptStatus, error: Option<punctual_core::JobError>) {
    if let Some(attempt) = record.attempts.last_mut() {
        attempt.status = status;
        attempt.finished_at = Some(now);
        attempt.error = error;
    }
}
