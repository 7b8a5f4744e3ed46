//! The port in memory, written for readability: what every engine must do, regardless of speed.

mod changes;
mod flow;
mod import;
mod limiter;
mod notifications;
mod state;
mod tokens;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, Change, Changed, Changes, Claim, ClaimRequest, Claimed, Clock, Count, Diagnostic, Enqueued,
    Filter, Heartbeat, History, IdempotentRequest, Job, JobId, JobPage, Json, Lock, LogLine, NewJob, NewNotification,
    NewWorkflow, Node, Notification, Page, Pending, ProgressReport, Queue, QueueEvent, QueueSave, Relative,
    RetentionPolicy, Schedule, ScheduleEvent, ScheduleSave, Schema, Settled, Settlement, Status, StoreError, StoreInfo,
    StoreResult, SystemClock, Timestamp, Token, TokenId, Watch, WorkerId, WorkerRecord, Workflow, WorkflowId,
    limiter::{LimitUsage, OccupiedSlot},
    limits,
    measure::{self, Measure, Rollup},
    store::ports::*,
    transfer::{Dependency, ExportBatch},
};
use tokio::{sync::watch, time};

pub use self::state::Ties;
use self::state::{HeldLock, Record, State};

/// A store that loses its data when it is dropped.
#[derive(Clone)]
pub struct ModelStore {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    hints: watch::Sender<u64>,
    claim_wakeups: watch::Sender<()>,
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
    /// An empty store that uses `clock`.
    pub fn new(clock: impl Clock) -> Self {
        Self {
            clock: Arc::new(clock),
            state: Arc::default(),
            hints: watch::Sender::new(0),
            claim_wakeups: watch::Sender::new(()),
        }
    }

    /// Sets how ties are decided, if not by arrival.
    #[must_use]
    pub fn ties(self, ties: Ties) -> Self {
        self.state().ties = ties;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation at one instant, then sends a hint.
    fn write<T>(&self, work: impl FnOnce(&mut State, Timestamp) -> T) -> StoreResult<T> {
        let result = work(&mut self.state(), self.clock.now());
        self.hints.send_modify(|count| *count += 1);
        Ok(result)
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
impl JobStore for ModelStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.write(|state, now| state.enqueue_all(now, jobs))?
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.write(|state, now| state.change_all(now, changes))
    }
}

#[async_trait]
impl ClaimStore for ModelStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let deadline = time::Instant::now() + request.wait.min(limits::WAIT_MAX);
        let wakeups = self.claim_wakeups.subscribe();
        loop {
            let mut hints = self.hints.subscribe();
            let claimed = self.write(|state, now| state.claim(now, &request))?;
            hints.mark_unchanged();
            let left = deadline.saturating_duration_since(time::Instant::now());
            if !claimed.claims.is_empty() || left.is_zero() || wakeups.has_changed().unwrap_or(true) {
                return Ok(claimed);
            }
            // A test may set the clock, so the model polls at short intervals instead of waiting for the next due time.
            let _ = time::timeout(left.min(Duration::from_millis(5)), hints.changed()).await;
        }
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.write(|state, now| attempts.iter().map(|attempt| state.confirm(now, *attempt, worker)).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.write(|state, now| state.settle_all(now, settlements))
    }

    async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
        Ok(())
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        let all = self.state().jobs.iter().filter_map(Record::claim).collect::<Vec<_>>();
        let mut claims: Vec<Claim> = all.into_iter().filter(|claim| claim.worker == worker).collect();
        claims.sort_by_key(|claim| claim.job.id);
        claims.truncate(limit);
        Ok(claims)
    }
}

#[async_trait]
impl LeaseStore for ModelStore {
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

    async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        let mut state = self.state();
        Ok(attempts.iter().map(|attempt| state.held(*attempt, worker).is_some()).collect())
    }

    async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.write(|state, _| state.release_slots(worker, &attempts))
    }

    async fn report_progress(&self, notes: Vec<ProgressReport>) -> StoreResult<()> {
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
        let lease_until = |index: &usize| state.jobs[*index].job.lease_until;
        let mut indexes: Vec<usize> =
            (0..state.jobs.len()).filter(|index| lease_until(index).is_some_and(|until| until <= now)).collect();
        indexes.sort_by_key(|index| (lease_until(index), state.rank(*index)));
        indexes.truncate(limit);
        Ok(indexes.into_iter().filter_map(|index| state.jobs[index].claim()).collect())
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.promote(now, limit))
    }
}

#[async_trait]
impl JobReader for ModelStore {
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        Ok(self.state().find(id).map(|record| record.job.clone()))
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        let cursor = page.after.clone().unwrap_or_default();
        self.state().list(&filter, &page).ok_or(StoreError::BadCursor(cursor))
    }

    async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>> {
        let mut state = self.state();
        let history = |record: &Record| History { events: record.events.clone(), attempts: record.attempts.clone() };
        Ok(jobs.into_iter().map(|job| state.find(job).map(|record| history(record)).unwrap_or_default()).collect())
    }

    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
        let now = self.now();
        self.state().changes(now, since.as_deref(), limit)
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

    async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
        let mut sums = BTreeMap::<(String, String, Measure, u16), u64>::new();
        for ((hour, name, queue, measure, bucket), count) in &self.state().rollups {
            if *hour >= measure::hour(since) && *hour < until {
                *sums.entry((name.clone(), queue.clone(), *measure, *bucket)).or_default() += count;
            }
        }
        let rollup = |((name, queue, measure, bucket), count)| Rollup { name, queue, measure, bucket, count };
        Ok(sums.into_iter().map(rollup).collect())
    }
}

#[async_trait]
impl FlowStore for ModelStore {
    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.write(|state, now| state.submit(now, workflow, jobs))?
    }

    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
        self.write(|state, now| state.resubmit(now, changes, jobs))?
    }

    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
        Ok(self.state().workflows.get(&id).cloned())
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
        let before = before.unwrap_or(WorkflowId::from_bits(u128::MAX));
        Ok(self.state().workflows.range(..before).rev().take(limit).map(|(_, one)| one.clone()).collect())
    }

    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
        Ok(self.state().nodes(workflow))
    }

    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
        Ok(self.state().relatives(|edge| (edge.child == job).then_some(edge.parent)))
    }

    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
        let mut children = self.state().relatives(|edge| (edge.parent == job).then_some(edge.child));
        children.truncate(limit);
        Ok(children)
    }

    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
        let mut state = self.state();
        let result = |id: JobId| Some((id, state.find(id)?.job.result.clone()?));
        Ok(jobs.into_iter().filter_map(result).collect())
    }
}

#[async_trait]
impl ScheduleStore for ModelStore {
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
        let position = |one: &Schedule| Some((one.next_run_at?, one.spec.name.clone()));
        let runs =
            |one: &&Schedule| one.enabled && one.next_run_at.is_some_and(|at| at <= until) && position(one) > after;
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
                state.schedule_events.push((name, ScheduleEvent { at, actor, action: "removed".into() }));
            }
            removed
        })
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        let state = self.state();
        let of_it = state.schedule_events.iter().rev().filter(|(schedule, _)| *schedule == name);
        Ok(of_it.map(|(_, event)| event.clone()).take(limit).collect())
    }
}

#[async_trait]
impl QueueStore for ModelStore {
    async fn queues(&self) -> StoreResult<Vec<Queue>> {
        Ok(self.state().queues.values().cloned().collect())
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.write(|state, now| state.save_queue(now, save))
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        let state = self.state();
        let of_it = state.queue_events.iter().rev().filter(|(queue, _)| *queue == name);
        Ok(of_it.map(|(_, event)| event.clone()).take(limit).collect())
    }

    async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
        Ok(self.state().passed(&(queue, key), self.now()))
    }

    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
        Ok(self.state().occupied_slots(self.now(), &queue))
    }
}

#[async_trait]
impl WorkerStore for ModelStore {
    async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()> {
        self.write(|state, now| {
            let known = state.workers.entry(heartbeat.id).or_insert(WorkerRecord {
                heartbeat: heartbeat.clone(),
                started_at: now,
                seen_at: now,
            });
            known.heartbeat.running = heartbeat.running;
            known.seen_at = now;
        })
    }

    async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
        self.write(|state, _| drop(state.workers.remove(&worker)))
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        self.write(|state, now| state.end_leases(now, worker))
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        let mut workers: Vec<_> = self.state().workers.values().cloned().collect();
        workers.sort_by_key(|worker| (worker.started_at, worker.heartbeat.id));
        Ok(workers)
    }
}

#[async_trait]
impl LockStore for ModelStore {
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
}

#[async_trait]
impl NotificationStore for ModelStore {
    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
        self.write(|state, now| state.notify(now, messages))
    }

    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
        Ok(self.state().notifications(user.as_deref(), after, limit))
    }

    async fn last_notification(&self) -> StoreResult<u64> {
        Ok(self.state().last_notification)
    }

    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.drop_notifications(now.before(after), limit))
    }
}

#[async_trait]
impl TokenStore for ModelStore {
    async fn add_token(&self, token: Token) -> StoreResult<()> {
        self.write(|state, _| state.tokens.push(token))
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        Ok(self.state().tokens.clone())
    }

    async fn remove_token(&self, id: TokenId) -> StoreResult<bool> {
        self.write(|state, now| state.remove_token(id, now))
    }

    async fn clear_tokens(&self) -> StoreResult<()> {
        self.write(|state, now| state.clear_tokens(now))
    }

    async fn idempotent_request(
        &self,
        key: String,
        fingerprint: [u8; 32],
        seed: u64,
    ) -> StoreResult<IdempotentRequest> {
        self.write(|state, now| state.once(key, IdempotentRequest { fingerprint, at: now, seed }))
    }
}

#[async_trait]
impl TransferStore for ModelStore {
    async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>> {
        let state = self.state();
        let mut found: Vec<Dependency> =
            state.dependencies.iter().filter(|one| children.contains(&one.child)).copied().collect();
        found.sort();
        Ok(found)
    }

    async fn import(&self, batch: ExportBatch) -> StoreResult<usize> {
        self.write(|state, _| state.import(batch))
    }
}

#[async_trait]
impl RetentionStore for ModelStore {
    async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.expire(now, keep, limit))
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| {
            state.remove(now, limit, |job| job.status == Status::Deleted && job.updated_at.after(after) <= now)
        })
    }

    async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize> {
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
            let rollups = state.rollups.len();
            state.rollups.retain(|(hour, ..), _| *hour >= now.before(limits::ROLLUPS_KEPT));
            let workflows = state.workflows.len();
            state.prune_workflows(cutoff);
            state.prune_limits(now);
            state.prune_tokens(now);
            gone + workers - state.workers.len() + rollups - state.rollups.len() + workflows - state.workflows.len()
        })
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        let old = |job: &Job| job.spec.ephemeral && job.created_at < before;
        self.write(|state, now| state.remove(now, limit, |job| old(job) && job.status != Status::Processing))
    }

    async fn drop_partitions(&self, _keep: RetentionPolicy, _deleted: Duration) -> StoreResult<usize> {
        Ok(0)
    }
}

#[async_trait]
impl EngineStore for ModelStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { engine: "model", version: "1".into(), location: "memory".into() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(Hints(self.hints.subscribe()))
    }

    fn wake_claims(&self) {
        self.claim_wakeups.send_replace(());
    }

    async fn schema(&self) -> StoreResult<Schema> {
        Ok(Schema { version: 1, migrations: Vec::new() })
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        Ok(vec![Diagnostic { check: "memory".into(), ok: true, message: "nothing can be wrong with it".into() }])
    }
}
