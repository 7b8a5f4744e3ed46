//! The port in memory, written to be read: what every engine must do, without any care for speed.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Beat, Change, Changed, Claim, ClaimRequest, Claimed, Clock, Count, Enqueued,
    Event, EventId, Filter, Finding, Job, JobId, JobPage, Keep, Lock, LogLine, NewJob, Note, Order, Page, Pending,
    Schedule, ScheduleEvent, ScheduleSave, Schema, Settled, Settlement, Status, Store, StoreError, StoreInfo,
    StoreResult, SystemClock, Timestamp, Verb, Watch, WorkerId, WorkerRecord, change, limits,
    measure::{self, Measure, Tally},
};
use tokio::{sync::watch, time};

/// A store that forgets everything when it is dropped.
#[derive(Clone)]
pub struct ModelStore {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    hints: watch::Sender<u64>,
}

/// What decides between jobs of the same priority and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The order in which they were enqueued.
    #[default]
    Arrival,
    /// Their ids, which is the same order unless they were scheduled for different times.
    Id,
}

#[derive(Default)]
struct State {
    ties: Ties,
    /// In the order in which they were enqueued.
    jobs: Vec<Record>,
    keys: BTreeMap<(String, String), JobId>,
    tallies: BTreeMap<(Timestamp, String, String, Measure, u16), u64>,
    workers: BTreeMap<WorkerId, WorkerRecord>,
    schedules: BTreeMap<String, Schedule>,
    schedule_events: Vec<(String, ScheduleEvent)>,
    locks: BTreeMap<String, HeldLock>,
    events: u64,
}

struct Record {
    job: Job,
    attempts: Vec<Attempt>,
    events: Vec<Event>,
    logs: BTreeMap<(u32, u32), LogLine>,
}

struct HeldLock {
    owner: Option<String>,
    token: u64,
    expires_at: Timestamp,
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelStore")
    }
}

impl Default for ModelStore {
    fn default() -> Self {
        Self::new(SystemClock)
    }
}

impl ModelStore {
    /// An empty store that takes its time from `clock`.
    pub fn new(clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), state: Arc::default(), hints: watch::Sender::new(0) }
    }

    /// Lets ties be decided in another way than by arrival.
    #[must_use]
    pub fn ties(self, ties: Ties) -> Self {
        self.state().ties = ties;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something at one instant, then hints at it.
    fn write<T>(&self, work: impl FnOnce(&mut State, Timestamp) -> T) -> StoreResult<T> {
        let result = work(&mut self.state(), self.clock.now());
        self.hints.send_modify(|count| *count += 1);
        Ok(result)
    }
}

impl State {
    /// Decides between jobs of the same time.
    fn rank(&self, place: usize) -> u128 {
        match self.ties {
            Ties::Arrival => place as u128,
            Ties::Id => self.jobs[place].job.id.to_bits(),
        }
    }

    fn find(&mut self, id: JobId) -> Option<&mut Record> {
        self.jobs.iter_mut().find(|record| record.job.id == id)
    }

    fn event(&mut self, id: JobId, at: Timestamp, status: Status, run: Option<u32>, by: (Option<&str>, Option<&str>)) {
        self.events += 1;
        let (actor, detail) = (by.0.map(str::to_owned), by.1.map(str::to_owned));
        let event = Event { id: EventId::new(at, self.events), at, status, run, actor, detail };
        if let Some(record) = self.find(id) {
            record.events.push(event);
        }
    }

    fn tally(&mut self, now: Timestamp, job: &Job, measure: Measure, took: Duration) {
        let key = (measure::hour(now), job.spec.name.clone(), job.spec.queue.clone(), measure, measure::bucket(took));
        *self.tallies.entry(key).or_default() += 1;
    }

    fn enqueue(&mut self, now: Timestamp, new: NewJob) -> Enqueued {
        let key = new.spec.unique_key.clone().map(|key| (new.spec.name.clone(), key));
        if let Some(id) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return Enqueued { id: *id, existing: true };
        }
        if self.find(new.id).is_some() {
            return Enqueued { id: new.id, existing: true };
        }
        let job = new.into_job(now);
        let status = job.status;
        let id = job.id;
        self.jobs.push(Record { job, attempts: Vec::new(), events: Vec::new(), logs: BTreeMap::new() });
        self.event(id, now, status, None, (None, None));
        self.keys.extend(key.map(|key| (key, id)));
        Enqueued { id, existing: false }
    }

    fn promote(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut due: Vec<(Timestamp, u128, usize, JobId)> = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, record)| record.job.status.is_timed() && record.job.run_at <= now)
            .map(|(place, record)| (record.job.run_at, self.rank(place), place, record.job.id))
            .collect();
        due.sort();
        due.truncate(limit);
        for (_, _, place, id) in &due {
            let job = &mut self.jobs[*place].job;
            job.status = Status::Queued;
            job.updated_at = now;
            self.event(*id, now, Status::Queued, None, (None, None));
        }
        due.len()
    }

    fn claim(&mut self, now: Timestamp, request: &ClaimRequest) -> Claimed {
        self.promote(now, limits::PROMOTE_MAX_JOBS);
        let mut places: Vec<usize> = (0..self.jobs.len())
            .filter(|place| {
                let job = &self.jobs[*place].job;
                job.status == Status::Queued && request.serves(&job.spec.queue, &job.spec.name)
            })
            .collect();
        places.sort_by_key(|place| {
            let job = &self.jobs[*place].job;
            (u8::MAX - job.spec.priority, job.run_at, self.rank(*place))
        });
        places.truncate(request.limit);
        let mut claims: Vec<Claim> = places.into_iter().map(|place| self.hold(now, now, place, request)).collect();
        claims.extend(self.claim_ahead(now, request, request.limit - claims.len()));
        let timed = self.jobs.iter().filter(|record| record.job.status.is_timed());
        Claimed { claims, next_run_at: timed.map(|record| record.job.run_at).min() }
    }

    fn claim_ahead(&mut self, now: Timestamp, request: &ClaimRequest, limit: usize) -> Vec<Claim> {
        let mut places: Vec<usize> = (0..self.jobs.len())
            .filter(|place| {
                let job = &self.jobs[*place].job;
                job.status.is_timed()
                    && (now..=now.after(request.ahead)).contains(&job.run_at)
                    && request.serves(&job.spec.queue, &job.spec.name)
            })
            .collect();
        places.sort_by_key(|place| (self.jobs[*place].job.run_at, self.rank(*place)));
        places.truncate(limit);
        let claim = |place: usize| {
            let (id, at) = (self.jobs[place].job.id, self.jobs[place].job.run_at);
            self.event(id, at, Status::Queued, None, (None, None));
            self.hold(now, at, place, request)
        };
        places.into_iter().map(claim).collect()
    }

    /// Gives a job to a worker, which starts it `at` some time.
    fn hold(&mut self, now: Timestamp, at: Timestamp, place: usize, request: &ClaimRequest) -> Claim {
        let record = &mut self.jobs[place];
        let job = &mut record.job;
        job.status = Status::Processing;
        job.attempt += 1;
        job.run += 1;
        job.worker_id = Some(request.worker);
        job.lease_until = Some(at.after(request.lease));
        job.started_at = Some(at);
        job.updated_at = at;
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
        self.event(job.id, at, Status::Processing, Some(job.run), (None, None));
        self.tally(now, &job, Measure::Lateness, at.since(job.run_at));
        Claim { job: Box::new(job), worker: request.worker }
    }

    /// The record of an attempt that is under way in the worker's hands.
    fn held(&mut self, attempt: AttemptId, worker: WorkerId) -> Option<&mut Record> {
        let record = self.find(attempt.job)?;
        let job = &record.job;
        let holds = job.status == Status::Processing && job.run == attempt.run && job.worker_id == Some(worker);
        holds.then_some(record)
    }

    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        let Some(record) = self.held(settlement.attempt, settlement.worker) else { return Settled::Stale };
        if settlement.only_if_expired && record.job.lease_until.is_some_and(|until| until > now) {
            return Settled::Stale;
        }
        let ending = settlement.ending;
        let before = record.job.clone();
        close_attempt(record, now, settlement.attempt_status, settlement.fault.clone());
        let job = &mut record.job;
        job.status = ending.status();
        job.run_at = ending.run_at(now).unwrap_or(job.run_at);
        job.attempt -= u32::from(ending.gives_back_attempt());
        job.crash_count += u32::from(settlement.attempt_status == AttemptStatus::Lost);
        job.updated_at = now;
        job.finished_at = job.status.is_finished().then_some(now);
        job.worker_id = None;
        job.lease_until = None;
        job.result = settlement.result.or(job.result.take());
        job.error = settlement.fault.or(job.error.take());
        for step in ending.path() {
            self.event(before.id, now, *step, Some(before.run), (None, None));
        }
        let took = now.since(before.started_at.unwrap_or(now));
        self.tally(now, &before, Measure::Ended(settlement.attempt_status), took);
        if ending.status() == Status::Dead {
            self.tally(now, &before, Measure::Died, took);
        }
        Settled::Done
    }

    fn change(&mut self, now: Timestamp, wish: Change) -> Changed {
        let Some(record) = self.find(wish.job) else { return Changed::NotFound };
        let before = record.job.clone();
        match change::apply(wish.verb, &mut record.job, now) {
            Ok(true) => Changed::Already,
            Err(refused) => Changed::Refused(refused),
            Ok(false) => {
                self.changed(now, &before, (Some(&wish.actor), wish.reason.as_deref()));
                Changed::Done
            }
        }
    }

    /// What follows from a change that was applied to a job's row.
    fn changed(&mut self, now: Timestamp, before: &Job, by: (Option<&str>, Option<&str>)) {
        let Some(record) = self.find(before.id) else { return };
        let status = record.job.status;
        let was_running = before.status == Status::Processing;
        if was_running {
            close_attempt(record, now, AttemptStatus::Cancelled, None);
            let took = now.since(before.started_at.unwrap_or(now));
            self.tally(now, before, Measure::Ended(AttemptStatus::Cancelled), took);
        }
        if matches!(status, Status::Cancelled | Status::Deleted) {
            self.keys.retain(|_, holder| *holder != before.id);
        }
        self.event(before.id, now, status, was_running.then_some(before.run), by);
    }

    fn retire(&mut self, now: Timestamp, keep: Keep, limit: usize) -> usize {
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
            if change::apply(Verb::Delete, &mut record.job, now).is_ok() {
                self.changed(now, &before, (Some("retention"), None));
            }
        }
        ids.len()
    }

    /// Removes at most `limit` of the jobs that fit, with their keys.
    fn remove(&mut self, limit: usize, fits: impl Fn(&Job) -> bool) -> usize {
        let gone: Vec<JobId> =
            self.jobs.iter().map(|record| &record.job).filter(|job| fits(job)).map(|job| job.id).take(limit).collect();
        self.jobs.retain(|record| !gone.contains(&record.job.id));
        self.keys.retain(|_, holder| !gone.contains(holder));
        gone.len()
    }

    fn list(&self, filter: &Filter, page: &Page) -> Option<JobPage> {
        let mut places: Vec<usize> =
            (0..self.jobs.len()).filter(|place| filter.selects(&self.jobs[*place].job)).collect();
        places.sort_by_key(|place| {
            let job = &self.jobs[*place].job;
            (filter.time_of(job), if filter.order() == Order::Newest { job.id.to_bits() } else { self.rank(*place) })
        });
        if filter.order() != Order::Due {
            places.reverse();
        }
        let start = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        let rest = places.len().saturating_sub(start);
        let jobs: Vec<Job> =
            places.into_iter().skip(start).take(page.limit).map(|place| self.jobs[place].job.clone()).collect();
        let next = (rest > jobs.len()).then(|| (start + jobs.len()).to_string());
        Some(JobPage { jobs, next })
    }

    fn lock(&mut self, now: Timestamp, name: String, owner: String, ttl: Duration) -> Option<Lock> {
        let held = self.locks.entry(name.clone()).or_insert(HeldLock { owner: None, token: 0, expires_at: now });
        let free = held.expires_at <= now || held.owner.as_ref().is_none_or(|holder| *holder == owner);
        free.then(|| {
            held.owner = Some(owner.clone());
            held.token += 1;
            held.expires_at = now.after(ttl);
            Lock { name, owner, token: held.token, expires_at: held.expires_at }
        })
    }

    fn save_schedule(&mut self, now: Timestamp, save: ScheduleSave) -> bool {
        let ScheduleSave { mut schedule, is_new, jobs, done } = save;
        let fits = match self.schedules.get(&schedule.spec.name) {
            Some(known) => !is_new && (known.id, known.revision) == (schedule.id, schedule.revision),
            None => is_new,
        };
        if fits {
            schedule.revision += 1;
            if let Some(what) = done {
                let event = ScheduleEvent { at: now, actor: schedule.updated_by.clone(), what };
                self.schedule_events.push((schedule.spec.name.clone(), event));
            }
            self.schedules.insert(schedule.spec.name.clone(), schedule);
            for job in jobs {
                self.enqueue(now, job);
            }
        }
        fits
    }

    fn own_lock(&mut self, now: Timestamp, name: &str, owner: &str) -> Option<&mut HeldLock> {
        let held = self.locks.get_mut(name)?;
        (held.owner.as_deref() == Some(owner) && held.expires_at > now).then_some(held)
    }
}

fn close_attempt(record: &mut Record, now: Timestamp, status: AttemptStatus, error: Option<punctual_core::Fault>) {
    if let Some(attempt) = record.attempts.last_mut() {
        attempt.status = status;
        attempt.finished_at = Some(now);
        attempt.error = error;
    }
}

struct Hints(watch::Receiver<u64>);

#[async_trait]
impl Watch for Hints {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Store for ModelStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { engine: "model", version: "1".into(), location: "memory".into() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(Hints(self.hints.subscribe()))
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.write(|state, now| jobs.into_iter().map(|job| state.enqueue(now, job)).collect())
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let deadline = time::Instant::now() + request.wait.min(limits::WAIT_MAX);
        loop {
            let mut hints = self.hints.subscribe();
            let claimed = self.write(|state, now| state.claim(now, &request))?;
            hints.mark_unchanged();
            let left = deadline.saturating_duration_since(time::Instant::now());
            if !claimed.claims.is_empty() || left.is_zero() {
                return Ok(claimed);
            }
            // The clock may be one that a test sets, so it looks often instead of waiting for the next due time.
            let _ = time::timeout(left.min(Duration::from_millis(5)), hints.changed()).await;
        }
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.write(|state, now| settlements.into_iter().map(|one| state.settle(now, one)).collect())
    }

    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| {
            let mut extend = |attempt: &AttemptId| {
                let held = state.held(*attempt, worker);
                let live = held.filter(|record| record.job.lease_until.is_some_and(|until| until > now));
                live.map(|record| record.job.lease_until = record.job.lease_until.max(Some(now.after(lease)))).is_some()
            };
            attempts.iter().map(&mut extend).collect()
        })
    }

    async fn held(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        let mut state = self.state();
        Ok(attempts.iter().map(|attempt| state.held(*attempt, worker).is_some()).collect())
    }

    async fn note(&self, notes: Vec<Note>) -> StoreResult<()> {
        self.write(|state, _| {
            for note in notes {
                if let (Some(progress), Some(record)) = (note.progress, state.held(note.attempt, note.worker)) {
                    record.job.progress = Some(progress);
                }
                if let Some(record) = state.find(note.attempt.job) {
                    for (number, line) in note.lines {
                        record.logs.entry((note.attempt.run, number)).or_insert(line);
                    }
                }
            }
        })
    }

    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
        let (state, now) = (self.state(), self.clock.now());
        let lease_until = |place: &usize| state.jobs[*place].job.lease_until;
        let mut places: Vec<usize> =
            (0..state.jobs.len()).filter(|place| lease_until(place).is_some_and(|until| until <= now)).collect();
        places.sort_by_key(|place| (lease_until(place), state.rank(*place)));
        places.truncate(limit);
        let jobs = places.into_iter().map(|place| state.jobs[place].job.clone());
        Ok(jobs.filter_map(|job| Some(Claim { worker: job.worker_id?, job: Box::new(job) })).collect())
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.promote(now, limit))
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.write(|state, now| changes.into_iter().map(|wish| state.change(now, wish)).collect())
    }

    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        Ok(self.state().find(id).map(|record| record.job.clone()))
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        let cursor = page.after.clone().unwrap_or_default();
        self.state().list(&filter, &page).ok_or(StoreError::BadCursor(cursor))
    }

    async fn attempts(&self, job: JobId) -> StoreResult<Vec<Attempt>> {
        Ok(self.state().find(job).map(|record| record.attempts.clone()).unwrap_or_default())
    }

    async fn events(&self, job: JobId) -> StoreResult<Vec<Event>> {
        Ok(self.state().find(job).map(|record| record.events.clone()).unwrap_or_default())
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        let mut state = self.state();
        let record = state.find(job);
        Ok(record.map(|record| record.logs.values().take(limit).cloned().collect()).unwrap_or_default())
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        let mut counts = BTreeMap::<(String, String, Status), u64>::new();
        for Record { job, .. } in &self.state().jobs {
            *counts.entry((job.spec.queue.clone(), job.spec.name.clone(), job.status)).or_default() += 1;
        }
        Ok(counts.into_iter().map(|((queue, name, status), count)| Count { queue, name, status, count }).collect())
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        let mut counts = BTreeMap::<(Option<String>, String), u64>::new();
        for Record { job, .. } in self.state().jobs.iter().filter(|record| record.job.status.is_active()) {
            *counts.entry((job.spec.user_id.clone(), job.spec.name.clone())).or_default() += 1;
        }
        let mut pending: Vec<_> =
            counts.into_iter().map(|((user_id, name), count)| Pending { user_id, name, count }).collect();
        pending.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
        pending.truncate(limit);
        Ok(pending)
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        let mut counts = BTreeMap::<String, u64>::new();
        for Record { job, .. } in &self.state().jobs {
            let died = job.finished_at.is_some_and(|at| at >= since && at < until);
            if job.status == Status::Dead && died {
                *counts.entry(job.spec.name.clone()).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(counts)
    }

    async fn tallies(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Tally>> {
        let mut sums = BTreeMap::<(String, String, Measure, u16), u64>::new();
        for ((hour, name, queue, measure, bucket), count) in &self.state().tallies {
            if *hour >= measure::hour(since) && *hour < until {
                *sums.entry((name.clone(), queue.clone(), *measure, *bucket)).or_default() += count;
            }
        }
        let tally = |((name, queue, measure, bucket), count)| Tally { name, queue, measure, bucket, count };
        Ok(sums.into_iter().map(tally).collect())
    }

    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let state = self.state();
        let beyond = state.schedules.values().filter(|one| Some(&one.spec.name) > after.as_ref());
        Ok(beyond.take(limit).cloned().collect())
    }

    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
        Ok(self.state().schedules.get(&name).cloned())
    }

    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>> {
        let state = self.state();
        let place = |one: &Schedule| Some((one.next_run_at?, one.spec.name.clone()));
        let runs = |one: &&Schedule| one.enabled && one.next_run_at.is_some_and(|at| at <= until) && place(one) > after;
        let mut found: Vec<Schedule> = state.schedules.values().filter(runs).cloned().collect();
        found.sort_by_key(|one| one.next_run_at);
        found.truncate(limit);
        Ok(found)
    }

    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| saves.into_iter().map(|save| state.save_schedule(now, save)).collect())
    }

    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
        self.write(|state, at| {
            let removed = state.schedules.remove(&name).is_some();
            if removed {
                state.schedule_events.push((name, ScheduleEvent { at, actor, what: "removed".into() }));
            }
            removed
        })
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        let state = self.state();
        let of_it = state.schedule_events.iter().rev().filter(|(schedule, _)| *schedule == name);
        Ok(of_it.map(|(_, event)| event.clone()).take(limit).collect())
    }

    async fn beat(&self, beat: Beat) -> StoreResult<()> {
        self.write(|state, now| {
            let known = state.workers.entry(beat.id).or_insert(WorkerRecord {
                beat: beat.clone(),
                started_at: now,
                seen_at: now,
            });
            known.beat.running = beat.running;
            known.seen_at = now;
        })
    }

    async fn leave(&self, worker: WorkerId) -> StoreResult<()> {
        self.write(|state, _| drop(state.workers.remove(&worker)))
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        let mut workers: Vec<_> = self.state().workers.values().cloned().collect();
        workers.sort_by_key(|worker| (worker.started_at, worker.beat.id));
        Ok(workers)
    }

    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        self.write(|state, now| state.lock(now, name, owner, ttl))
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        self.write(|state, now| {
            state.own_lock(now, &name, &owner).map(|held| held.expires_at = now.after(ttl)).is_some()
        })
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        self.write(|state, now| state.own_lock(now, &name, &owner).map(|held| held.owner = None).is_some())
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        let now = self.clock.now();
        let held = |(name, held): (&String, &HeldLock)| {
            let owner = held.owner.clone().filter(|_| held.expires_at > now)?;
            Some(Lock { name: name.clone(), owner, token: held.token, expires_at: held.expires_at })
        };
        Ok(self.state().locks.iter().filter_map(held).collect())
    }

    async fn retire(&self, keep: Keep, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.retire(now, keep, limit))
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| {
            state.remove(limit, |job| job.status == Status::Deleted && job.updated_at.after(after) <= now)
        })
    }

    async fn trim(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| {
            let cutoff = now.before(after);
            let (mut attempts, mut lines, mut gone) = (0, 0, 0);
            for record in &mut state.jobs {
                let ended = |attempt: &Attempt| attempt.finished_at.is_some();
                let old = |at: Timestamp| at <= cutoff;
                record.attempts.retain(|attempt| {
                    attempts += usize::from(ended(attempt));
                    let goes = attempts <= limit && attempt.finished_at.is_some_and(old);
                    gone += usize::from(goes);
                    !goes
                });
                record.logs.retain(|_, line| {
                    lines += 1;
                    let goes = lines <= limit && old(line.at);
                    gone += usize::from(goes);
                    !goes
                });
            }
            let workers = state.workers.len();
            state.workers.retain(|_, worker| worker.seen_at > now.before(limits::WORKER_SILENT_MAX));
            let tallies = state.tallies.len();
            state.tallies.retain(|(hour, ..), _| *hour >= now.before(limits::TALLIES_KEPT));
            gone + workers - state.workers.len() + tallies - state.tallies.len()
        })
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        let old = |job: &Job| job.spec.ephemeral && job.created_at < before;
        self.write(|state, _| state.remove(limit, |job| old(job) && job.status != Status::Processing))
    }

    async fn schema(&self) -> StoreResult<Schema> {
        Ok(Schema { version: 1, migrations: Vec::new() })
    }

    async fn examine(&self) -> StoreResult<Vec<Finding>> {
        Ok(vec![Finding { check: "memory".into(), ok: true, message: "nothing can be wrong with it".into() }])
    }
}
