//! Implements the ports by means of the operations. An engine provides `read`, `write`, `write_soon` (which a power
//! failure may undo), `write_many` (which takes an estimated number of rows) and `claim_or_wait`, and implements
//! [`EngineStore`](punctual_core::store::EngineStore) itself.

/// The names that the implementation uses.
pub(crate) mod names {
    pub(crate) use punctual_core::{
        AttemptId, Change, Changed, Changes, Claim, ClaimRequest, Claimed, Count, Diagnostic, Enqueued, Filter,
        Heartbeat, History, IdempotentRequest, Job, JobId, JobPage, Json, Lock, LogLine, NewJob, NewNotification,
        NewWorkflow, Node, Notification, Page, Pending, ProgressReport, Queue, QueueEvent, QueueSave, Relative,
        RetentionPolicy, Schedule, ScheduleEvent, ScheduleSave, Schema, Settled, Settlement, StoreError, StoreInfo,
        StoreResult, Timestamp, Token, TokenId, Watch, WorkerId, WorkerRecord, Workflow, WorkflowId,
        limiter::{LimitUsage, OccupiedSlot},
        measure::Rollup,
        store::ports::*,
        transfer::{Dependency, ExportBatch},
    };

    pub(crate) use crate::ops::{
        change, changes, enqueue, import, leases, list, locks, notifications, promote, queue_limits, queues, read,
        retention, schedules, settle, slots, tokens, workers, workflows,
    };
}

/// Implements all ports but the engine's own.
macro_rules! store_by_operations {
    ($store:ty) => {
        #[async_trait]
        impl JobStore for $store {
            async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
                self.write_many(jobs.len(), move |tx| enqueue::enqueue(tx, &jobs)).await
            }

            async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
                self.write(move |tx| change::change(tx, &changes)).await
            }
        }

        #[async_trait]
        impl ClaimStore for $store {
            async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
                self.claim_or_wait(request).await
            }

            async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
                self.write(move |tx| leases::confirm(tx, worker, &attempts)).await
            }

            async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
                self.write_many(settlements.len(), move |tx| settle::settle_ended(tx, &settlements)).await
            }

            async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
                Ok(())
            }

            async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
                self.read(move |db| leases::claims_of(db, worker, limit)).await
            }
        }

        #[async_trait]
        impl LeaseStore for $store {
            async fn extend(
                &self,
                worker: WorkerId,
                lease: Duration,
                attempts: Vec<AttemptId>,
            ) -> StoreResult<Vec<bool>> {
                self.write_soon(move |tx| leases::extend(tx, worker, lease, &attempts)).await
            }

            async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
                self.read(move |db| leases::held(db, worker, &attempts)).await
            }

            async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()> {
                self.write_soon(move |tx| slots::release(tx, worker, &attempts)).await
            }

            async fn report_progress(&self, reports: Vec<ProgressReport>) -> StoreResult<()> {
                self.write_soon(move |tx| leases::report_progress(tx, &reports)).await
            }

            async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
                let now = self.now();
                let leases::Expired { claims, corrupt } = self.read(move |db| leases::expired(db, now, limit)).await?;
                if !corrupt.is_empty() {
                    tracing::error!(
                        jobs = corrupt.len(),
                        "jobs whose leases have run out and whose rows are corrupt are set aside as dead"
                    );
                    self.settle(corrupt).await?;
                }
                Ok(claims)
            }

            async fn promote(&self, limit: usize) -> StoreResult<usize> {
                self.write_soon(move |tx| promote::promote(tx, limit)).await
            }
        }

        #[async_trait]
        impl JobReader for $store {
            async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
                self.read(move |db| read::get(db, id)).await
            }

            async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
                self.read(move |db| list::list(db, &filter, &page)).await
            }

            async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>> {
                self.read(move |db| jobs.iter().map(|job| read::history(db, *job)).collect()).await
            }

            async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
                let now = self.now();
                self.read(move |db| changes::changes(db, now, since.as_deref(), limit)).await
            }

            async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
                self.read(move |db| read::logs(db, job, limit)).await
            }

            async fn counts(&self) -> StoreResult<Vec<Count>> {
                self.read(read::counts).await
            }

            async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
                self.read(move |db| read::pending_by_user(db, limit)).await
            }

            async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
                self.read(move |db| read::dead_by_name(db, since, until)).await
            }

            async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
                self.read(move |db| read::rollups(db, since, until)).await
            }
        }

        #[async_trait]
        impl FlowStore for $store {
            async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
                self.write_many(jobs.len(), move |tx| workflows::submit(tx, &workflow, &jobs)).await
            }

            async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
                self.write(move |tx| workflows::resubmit(tx, &changes, &jobs)).await
            }

            async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
                self.read(move |db| workflows::workflow(db, id)).await
            }

            async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
                self.read(move |db| workflows::workflows(db, before, limit)).await
            }

            async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
                self.read(move |db| workflows::nodes(db, workflow)).await
            }

            async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
                self.read(move |db| workflows::parents(db, job)).await
            }

            async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
                self.read(move |db| workflows::children(db, job, limit)).await
            }

            async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
                self.read(move |db| workflows::results(db, &jobs)).await
            }
        }

        #[async_trait]
        impl ScheduleStore for $store {
            async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
                let after = after.unwrap_or_default();
                self.read(move |db| schedules::schedules(db, &after, limit)).await
            }

            async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
                self.read(move |db| schedules::schedule(db, &name)).await
            }

            async fn upcoming(
                &self,
                after: Option<(Timestamp, String)>,
                until: Timestamp,
                limit: usize,
            ) -> StoreResult<Vec<Schedule>> {
                let after = after.unwrap_or_default();
                self.read(move |db| schedules::upcoming(db, &after, until, limit)).await
            }

            async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
                let weight = saves.iter().map(|save| 1 + save.jobs.len()).sum();
                self.write_many(weight, move |tx| schedules::save(tx, &saves)).await
            }

            async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
                self.write(move |tx| schedules::remove(tx.edit(), &name, &actor)).await
            }

            async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
                self.read(move |db| schedules::events(db, &name, limit)).await
            }
        }

        #[async_trait]
        impl QueueStore for $store {
            async fn queues(&self) -> StoreResult<Vec<Queue>> {
                self.read(queues::queues).await
            }

            async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
                self.write(move |tx| queues::save(tx, &save)).await
            }

            async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
                self.read(move |db| queues::events(db, &name, limit)).await
            }

            async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
                let now = self.now();
                self.read(move |db| queue_limits::usage(db, now, &queue, key.as_deref())).await
            }

            async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
                let now = self.now();
                self.read(move |db| slots::occupied(db, now, &queue)).await
            }
        }

        #[async_trait]
        impl WorkerStore for $store {
            async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()> {
                self.write_soon(move |tx| workers::heartbeat(tx.edit().single(), &heartbeat)).await
            }

            async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
                self.write_soon(move |tx| workers::deregister(tx.db, worker)).await
            }

            async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
                self.write_soon(move |tx| workers::end_leases(tx, worker)).await
            }

            async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
                self.read(workers::workers).await
            }
        }

        #[async_trait]
        impl LockStore for $store {
            async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
                self.write(move |tx| locks::lock(tx.edit().single(), &name, &owner, ttl)).await
            }

            async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
                self.write(move |tx| locks::extend_lock(tx.edit().single(), &name, &owner, ttl)).await
            }

            async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
                self.write(move |tx| locks::unlock(tx.edit().single(), &name, &owner)).await
            }

            async fn locks(&self) -> StoreResult<Vec<Lock>> {
                let now = self.now();
                self.read(move |db| locks::locks(db, Some(now))).await
            }
        }

        #[async_trait]
        impl NotificationStore for $store {
            async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
                self.write(move |tx| {
                    tx.jobs_changed = !messages.is_empty();
                    notifications::notify(tx.edit().single(), &messages)
                })
                .await
            }

            async fn notifications(
                &self,
                user: Option<String>,
                after: u64,
                limit: usize,
            ) -> StoreResult<Vec<Notification>> {
                self.read(move |db| notifications::list(db, user.as_deref(), after, limit)).await
            }

            async fn last_notification(&self) -> StoreResult<u64> {
                self.read(notifications::last).await
            }

            async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
                self.write(move |tx| notifications::drop(tx.edit(), after, limit)).await
            }
        }

        #[async_trait]
        impl TokenStore for $store {
            async fn add_token(&self, token: Token) -> StoreResult<()> {
                self.write(move |tx| tokens::add(tx.db, &token)).await
            }

            async fn tokens(&self) -> StoreResult<Vec<Token>> {
                self.read(tokens::list).await
            }

            async fn remove_token(&self, id: TokenId) -> StoreResult<bool> {
                self.write(move |tx| tokens::remove(tx.edit(), id)).await
            }

            async fn clear_tokens(&self) -> StoreResult<()> {
                self.write(move |tx| tokens::clear(tx.edit().single())).await
            }

            async fn idempotent_request(
                &self,
                key: String,
                fingerprint: [u8; 32],
                seed: u64,
            ) -> StoreResult<IdempotentRequest> {
                self.write(move |tx| tokens::idempotent_request(tx.edit().single(), &key, fingerprint, seed)).await
            }
        }

        #[async_trait]
        impl TransferStore for $store {
            async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>> {
                self.read(move |db| import::dependencies(db, &children)).await
            }

            async fn import(&self, batch: ExportBatch) -> StoreResult<usize> {
                self.write(move |tx| import::import(tx, &batch)).await
            }
        }

        #[async_trait]
        impl RetentionStore for $store {
            async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
                self.write(move |tx| retention::expire(tx, keep, limit)).await
            }

            async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
                self.write(move |tx| retention::purge(tx, after, limit)).await
            }

            async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize> {
                self.write(move |tx| retention::prune(tx, after, limit)).await
            }

            async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
                self.write(move |tx| retention::drop_ephemeral(tx, before, limit)).await
            }

            async fn drop_partitions(&self, _keep: RetentionPolicy, _deleted: Duration) -> StoreResult<usize> {
                Ok(0)
            }
        }
    };
}
pub(crate) use store_by_operations;
