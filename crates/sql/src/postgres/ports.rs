//! The operations of the store that are not on the hot path. Those of `ops` are shared by all engines.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{
    Change, Changed, Changes, Count, Diagnostic, Filter, Heartbeat, History, IdempotentRequest, Job, JobId, JobPage,
    Json, Lock, LogLine, NewJob, NewNotification, NewWorkflow, Node, Notification, Page, Pending, Queue, QueueEvent,
    QueueSave, Relative, RetentionPolicy, Schedule, ScheduleEvent, ScheduleSave, Schema, StoreInfo, StoreResult,
    Timestamp, Token, TokenId, Watch, WorkerId, WorkerRecord, Workflow, WorkflowId,
    limiter::{LimitUsage, OccupiedSlot},
    measure::Rollup,
    store::{Metric, ports::*},
    transfer::{Dependency, ExportBatch},
};

use super::{
    changes, diagnostics, history, import, list, maintenance, notifications, partition_retention, queue_limits,
    queue_settings, read, retention, schedules, schema, session::Patience, store::PostgresStore, workers, workflows,
};
use crate::ops;

#[async_trait]
impl JobReader for PostgresStore {
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.answer(Patience::Short, read::get(&self.core, id)).await
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        self.core.sessions.within(Patience::Usual, list::list(&self.core, &filter, &page)).await
    }

    async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>> {
        self.answer(Patience::Usual, history::histories(&self.core, &jobs)).await
    }

    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
        self.core.sessions.within(Patience::Usual, changes::changes(&self.core, since.as_deref(), limit)).await
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.answer(Patience::Usual, read::logs(&self.core, job, limit)).await
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        self.answer(Patience::Usual, read::counts(&self.core)).await
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        self.answer(Patience::Usual, read::pending_by_user(&self.core, limit)).await
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        self.answer(Patience::Usual, read::dead_by_name(&self.core, since, until)).await
    }

    async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
        self.answer(Patience::Usual, read::rollups(&self.core, since, until)).await
    }
}

#[async_trait]
impl FlowStore for PostgresStore {
    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.core.sessions.within(Patience::Usual, workflows::submit(&self.core, &workflow, &jobs)).await
    }

    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
        self.core.sessions.within(Patience::Usual, workflows::resubmit(&self.core, &changes, &jobs)).await
    }

    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
        self.answer(Patience::Usual, workflows::workflow(&self.core, id)).await
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
        self.answer(Patience::Usual, workflows::workflows(&self.core, before, limit)).await
    }

    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
        self.answer(Patience::Usual, workflows::nodes(&self.core, workflow)).await
    }

    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
        self.answer(Patience::Usual, workflows::parents(&self.core, job)).await
    }

    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
        self.answer(Patience::Usual, workflows::children(&self.core, job, limit)).await
    }

    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
        self.answer(Patience::Usual, workflows::results(&self.core, &jobs)).await
    }
}

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let after = after.unwrap_or_default();
        self.answer(Patience::Usual, self.core.run(|db| ops::schedules::schedules(db, &after, limit))).await
    }

    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
        self.answer(Patience::Usual, self.core.run(|db| ops::schedules::schedule(db, &name))).await
    }

    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>> {
        let after = after.unwrap_or_default();
        self.answer(Patience::Usual, self.core.run(|db| ops::schedules::upcoming(db, &after, until, limit))).await
    }

    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
        self.core.sessions.within(Patience::Usual, schedules::save(&self.core, &saves)).await
    }

    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
        self.answer(Patience::Usual, self.core.edit(|edit| ops::schedules::remove(edit, &name, &actor))).await
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        self.answer(Patience::Usual, self.core.run(|db| ops::schedules::events(db, &name, limit))).await
    }
}

#[async_trait]
impl QueueStore for PostgresStore {
    async fn queues(&self) -> StoreResult<Vec<Queue>> {
        self.answer(Patience::Short, self.core.run(ops::queues::queues)).await
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.answer(Patience::Usual, queue_settings::save(&self.core, &save)).await
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        self.answer(Patience::Usual, self.core.run(|db| ops::queues::events(db, &name, limit))).await
    }

    async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
        self.answer(Patience::Usual, queue_limits::usage_of(&self.core, &queue, key.as_deref())).await
    }

    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
        self.answer(Patience::Usual, queue_limits::slots::occupied(&self.core, &queue)).await
    }
}

#[async_trait]
impl WorkerStore for PostgresStore {
    async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()> {
        self.answer(Patience::Short, self.core.edit_one(|edit| ops::workers::heartbeat(edit, &heartbeat))).await
    }

    async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
        self.answer(Patience::Short, self.core.run(|db| ops::workers::deregister(db, worker))).await
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        self.answer(Patience::Short, workers::end_leases(&self.core, worker)).await
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        self.answer(Patience::Usual, self.core.run(ops::workers::workers)).await
    }
}

#[async_trait]
impl LockStore for PostgresStore {
    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        let lock = self.core.edit_one(|edit| ops::locks::lock(edit, &name, &owner, ttl));
        self.answer(Patience::Short, lock).await
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        let extend = self.core.edit_one(|edit| ops::locks::extend_lock(edit, &name, &owner, ttl));
        self.answer(Patience::Short, extend).await
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        let unlock = self.core.edit_one(|edit| ops::locks::unlock(edit, &name, &owner));
        self.answer(Patience::Short, unlock).await
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        let locks = self.core.edit_one(|edit| ops::locks::locks(edit.db, edit.at));
        self.answer(Patience::Usual, locks).await
    }
}

#[async_trait]
impl NotificationStore for PostgresStore {
    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
        self.answer(Patience::Short, notifications::notify(&self.core, &messages)).await
    }

    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
        let list = self.core.run(|db| ops::notifications::list(db, user.as_deref(), after, limit));
        self.answer(Patience::Usual, list).await
    }

    async fn last_notification(&self) -> StoreResult<u64> {
        self.answer(Patience::Short, self.core.run(ops::notifications::last)).await
    }

    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, self.core.edit(|edit| ops::notifications::drop(edit, after, limit))).await
    }
}

#[async_trait]
impl TokenStore for PostgresStore {
    async fn add_token(&self, token: Token) -> StoreResult<()> {
        self.answer(Patience::Usual, self.core.run(|db| ops::tokens::add(db, &token))).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.answer(Patience::Short, self.core.run(ops::tokens::list)).await
    }

    async fn remove_token(&self, id: TokenId) -> StoreResult<bool> {
        self.answer(Patience::Usual, self.core.edit(|edit| ops::tokens::remove(edit, id))).await
    }

    async fn clear_tokens(&self) -> StoreResult<()> {
        self.answer(Patience::Short, self.core.edit_one(ops::tokens::clear)).await
    }

    async fn idempotent_request(
        &self,
        key: String,
        fingerprint: [u8; 32],
        seed: u64,
    ) -> StoreResult<IdempotentRequest> {
        let once = self.core.edit_one(|edit| ops::tokens::idempotent_request(edit, &key, fingerprint, seed));
        self.answer(Patience::Short, once).await
    }
}

#[async_trait]
impl TransferStore for PostgresStore {
    async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>> {
        self.answer(Patience::Usual, import::dependencies(&self.core, &children)).await
    }

    async fn import(&self, batch: ExportBatch) -> StoreResult<usize> {
        self.core.sessions.within(Patience::Long, import::import(&self.core, &batch)).await
    }
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, retention::expire(&self.core, keep, limit)).await
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, retention::purge(&self.core, after, limit)).await
    }

    async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, retention::prune(&self.core, after, limit)).await
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, retention::drop_ephemeral(&self.core, before, limit)).await
    }

    async fn drop_partitions(&self, keep: RetentionPolicy, deleted: Duration) -> StoreResult<usize> {
        self.answer(Patience::Long, partition_retention::drop_days(&self.core, keep, deleted)).await
    }
}

#[async_trait]
impl EngineStore for PostgresStore {
    fn info(&self) -> StoreInfo {
        let location = self.core.options.location();
        StoreInfo { engine: "postgres", version: self.core.version.clone(), location }
    }

    fn now(&self) -> Timestamp {
        self.core.clock_now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(self.core.hints.jobs.listen())
    }

    fn wake_claims(&self) {
        self.core.hints.claim_wakes.wake();
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.answer(Patience::Long, maintenance::maintain(&self.core)).await
    }

    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        Ok(self.core.sessions.metrics())
    }

    async fn schema(&self) -> StoreResult<Schema> {
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let schema = schema::read(&mut unit).await?;
            unit.done().await?;
            Ok(schema)
        };
        self.answer(Patience::Usual, read).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.answer(Patience::Long, diagnostics::check(&self.core)).await
    }
}
