//! Dependencies: new jobs are linked to their parents, and the end of a job is applied to its children.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    JobId, NewJob, OnParentFailure, Status, StoreError, Timestamp,
    flow::{self, Consequences, Edge, Fate, Next, Waiting},
    workflow::EndsChange,
};
use sqlx::{PgConnection, Row};

use super::{
    core::Core,
    error,
    locking::{self, JobStates},
    partitions::{self, Days},
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// The table in which jobs are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Tables<'a> {
    /// The partition of the job's day. A statement that names a removed partition fails, and its transaction with it.
    Days(&'a Days),
    /// The partitioned table, which takes longer.
    Whole,
}

impl Tables<'_> {
    pub(crate) fn of<T>(
        self,
        items: impl IntoIterator<Item = T>,
        id: impl Fn(&T) -> JobId,
    ) -> BTreeMap<String, Vec<T>> {
        match self {
            Self::Days(days) => days.by_table(items, id),
            Self::Whole => BTreeMap::from([(partitions::JOBS.name.to_owned(), items.into_iter().collect())]),
        }
    }
}

/// The lanes in which jobs were queued, with the earliest time in each.
pub(crate) type Woken = Vec<(i32, Timestamp)>;

/// Locks the parents of new jobs; returns the states of those that exist.
pub(crate) async fn lock_parents(
    connection: &mut PgConnection,
    jobs: &[NewJob],
    now: Timestamp,
) -> sqlx::Result<JobStates> {
    let parents: BTreeSet<JobId> = jobs.iter().flat_map(|job| job.parents.iter().copied()).collect();
    locking::lock(connection, &parents, &BTreeSet::new(), now).await?.ok_or_else(error::concurrent_change)
}

/// How new jobs with parents begin.
pub(crate) struct Beginnings<'a> {
    /// The states of the parents that were stored before.
    stored: &'a JobStates,
    /// By job: its first step, and the fate of each of its parents.
    by_job: HashMap<JobId, (Next, Vec<Fate>)>,
}

impl<'a> Beginnings<'a> {
    /// Decides how jobs begin whose parents are locked or precede them in the same batch.
    pub(crate) fn of(jobs: &[&NewJob], stored: &'a JobStates) -> sqlx::Result<Self> {
        let mut statuses: HashMap<JobId, Status> = stored.iter().map(|(id, job)| (*id, job.status)).collect();
        let mut by_job = HashMap::new();
        for job in jobs {
            let policy = job.spec.options.on_parent_failure;
            let (next, fates) =
                flow::begin_with(policy, &job.parents, |id| statuses.get(&id).copied()).map_err(error::refuse)?;
            let begins = match next {
                Next::Start => Status::Queued,
                Next::Wait(_) => Status::Waiting,
                Next::Cancel(_) => Status::Cancelled,
            };
            statuses.entry(job.id).or_insert(begins);
            if !job.parents.is_empty() {
                by_job.insert(job.id, (next, fates));
            }
        }
        Ok(Self { stored, by_job })
    }

    /// The first step of a job, if it has parents.
    pub(crate) fn next(&self, job: JobId) -> Option<&Next> {
        self.by_job.get(&job).map(|(next, _)| next)
    }

    /// How many parents a job waits for, and whether any of them failed.
    pub(crate) fn waiting(&self, job: JobId) -> Waiting {
        Waiting::of(self.by_job.get(&job).into_iter().flat_map(|(_, fates)| fates.iter().copied()))
    }

    /// Links new jobs, which are already stored, to their parents and workflows.
    pub(crate) async fn join(&self, store: &Core, connection: &mut PgConnection, jobs: &[&NewJob]) -> sqlx::Result<()> {
        let mut edges = Vec::new();
        for job in jobs {
            let Some((_, fates)) = self.by_job.get(&job.id) else { continue };
            for (parent, fate) in job.parents.iter().zip(fates) {
                edges.push((*parent, job.id, job.spec.options.on_parent_failure.as_str(), fate.succeeded()));
            }
        }
        if !edges.is_empty() {
            sqlx::query(*sql::INSERT_DEPENDENCIES)
                .bind(edges.iter().map(|(parent, ..)| uuid(*parent)).collect::<Vec<_>>())
                .bind(edges.iter().map(|(_, child, ..)| uuid(*child)).collect::<Vec<_>>())
                .bind(edges.iter().map(|(_, _, policy, _)| *policy).collect::<Vec<_>>())
                .bind(edges.iter().map(|(.., succeeded)| *succeeded).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
            let pending = edges.iter().filter(|(.., succeeded)| succeeded.is_none()).map(|(parent, ..)| *parent);
            mark_parents(connection, pending.collect(), jobs, self.stored).await?;
        }
        take_nodes(store, connection, jobs).await?;
        let cancelled = jobs.iter().filter_map(|job| match self.next(job.id) {
            Some(Next::Cancel(reason)) => Some((job.id, reason.as_str())),
            _ => None,
        });
        let writer = FlowWriter { now: store.sessions.clock(), tables: Tables::Whole };
        writer.cancel(connection, cancelled.collect()).await
    }
}

/// Marks these parents as having consequences when they end.
async fn mark_parents(
    connection: &mut PgConnection,
    parents: BTreeSet<JobId>,
    jobs: &[&NewJob],
    stored: &JobStates,
) -> sqlx::Result<()> {
    // A workflow's job is marked from the beginning.
    let marked: BTreeSet<JobId> = jobs.iter().filter(|job| job.spec.workflow_id.is_some()).map(|job| job.id).collect();
    let parents: BTreeSet<JobId> = parents.difference(&marked).copied().collect();
    if parents.is_empty() {
        return Ok(());
    }
    // Parents of the same batch have not been read yet.
    let unread: BTreeSet<JobId> = parents.iter().filter(|id| !stored.contains_key(id)).copied().collect();
    let mut all = locking::states(connection, &unread).await?;
    all.extend(stored.iter().filter(|(id, _)| parents.contains(id)));
    let (ids, times) = locking::ids_and_times(all.keys());
    sqlx::query(*sql::MARK_PARENTS)
        .bind(ids)
        .bind(times)
        .bind(all.values().map(|job| job.lane).collect::<Vec<_>>())
        .bind(all.values().map(|job| At(job.run_at)).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map(drop)
}

/// Registers jobs as nodes of their workflows, possibly replacing earlier jobs.
async fn take_nodes(store: &Core, connection: &mut PgConnection, jobs: &[&NewJob]) -> sqlx::Result<()> {
    let by_node: BTreeMap<(Uuid, &str), &NewJob> = jobs
        .iter()
        .filter_map(|job| {
            job.spec.workflow_node().map(|(workflow, node)| ((Uuid::from_u128(workflow.to_bits()), node), *job))
        })
        .collect();
    if by_node.is_empty() {
        return Ok(());
    }
    let (workflows, nodes): (Vec<Uuid>, Vec<&str>) = by_node.keys().copied().unzip();
    let former = sqlx::query(*sql::NODES_FORMER).bind(&workflows).bind(&nodes).fetch_all(&mut *connection).await?;
    let mut changes = BTreeMap::<Uuid, EndsChange>::new();
    for row in &former {
        let (workflow, node, other): (Uuid, &str, _) = (row.try_get(0)?, row.try_get(1)?, job_id(row.try_get(2)?));
        if by_node.get(&(workflow, node)).is_some_and(|job| job.spec.options.rerun_of != Some(other)) {
            return Err(error::refuse(StoreError::Superseded(other)));
        }
        if row.try_get::<Option<bool>, _>(3)? == Some(true) {
            let change = changes.entry(workflow).or_default();
            *change = change.and(EndsChange::of(rows::word(row, 4)?, Status::Waiting));
        }
    }
    for (workflow, EndsChange { succeeded, dead, cancelled }) in changes {
        let query = sqlx::query(*sql::CHANGE_ENDS).bind(store.sessions.clock()).bind(workflow);
        query.bind(succeeded).bind(dead).bind(cancelled).execute(&mut *connection).await?;
    }
    let ids: Vec<Uuid> = by_node.values().map(|job| uuid(job.id)).collect();
    sqlx::query(*sql::INSERT_NODES).bind(workflows).bind(nodes).bind(ids).execute(connection).await.map(drop)
}

/// The children that wait for jobs.
#[derive(Default)]
struct Pending {
    edges: Vec<Edge>,
    waiting: BTreeMap<JobId, Waiting>,
}

async fn pending(connection: &mut PgConnection, parents: &BTreeMap<JobId, Status>) -> sqlx::Result<Pending> {
    let ids: Vec<Uuid> = parents.keys().map(|id| uuid(*id)).collect();
    let rows = sqlx::query(*sql::FLOW_PENDING).bind(ids).fetch_all(connection).await?;
    let mut all = Pending::default();
    for row in &rows {
        let (parent, child) = (job_id(row.try_get(0)?), job_id(row.try_get(1)?));
        all.edges.push(Edge { parent, child, policy: rows::word::<OnParentFailure>(row, 2)? });
        all.waiting.insert(child, Waiting { on: rows::number(row, 3)?, any_failed: row.try_get(4)? });
    }
    Ok(all)
}

/// The jobs that are cancelled, and thereby end too.
fn cancelled(all: &Consequences) -> BTreeMap<JobId, Status> {
    let is_cancelled = |next: &Next| matches!(next, Next::Cancel(_));
    all.children.iter().filter(|(_, next)| is_cancelled(next)).map(|(id, _)| (*id, Status::Cancelled)).collect()
}

/// The waiting jobs that the ends of these jobs affect, according to the current rows.
pub(crate) async fn affected(
    connection: &mut PgConnection,
    mut ended: BTreeMap<JobId, Status>,
) -> sqlx::Result<BTreeSet<JobId>> {
    let (mut affected, mut found) = (BTreeSet::new(), BTreeMap::<JobId, Next>::new());
    while !ended.is_empty() {
        let mut all = pending(connection, &ended).await?;
        // With the state that the previous rounds left.
        all.waiting.retain(|child, waiting| match found.get(child) {
            Some(Next::Wait(left)) => {
                *waiting = *left;
                true
            }
            Some(_) => false,
            None => true,
        });
        let all = flow::follow(&ended, &all.edges, &all.waiting);
        ended = cancelled(&all);
        affected.extend(all.children.keys().copied());
        found.extend(all.children);
    }
    Ok(affected)
}

/// Writes the consequences of the ends of jobs.
#[derive(Clone, Copy)]
pub(crate) struct FlowWriter<'a> {
    /// The time of the consequences, if not the server's.
    pub(crate) now: Option<At>,
    pub(crate) tables: Tables<'a>,
}

impl FlowWriter<'_> {
    /// Applies the consequences of the ends of jobs. Those jobs are locked, and so are the waiting ones in `locked`. If
    /// more waiting jobs are affected by now, the transaction must be restarted: locking them here would violate the
    /// lock order.
    pub(crate) async fn follow(
        self,
        connection: &mut PgConnection,
        mut ended: BTreeMap<JobId, Status>,
        locked: &BTreeSet<JobId>,
    ) -> sqlx::Result<Woken> {
        let mut woken = Woken::new();
        while !ended.is_empty() {
            let Pending { edges, waiting } = pending(connection, &ended).await?;
            let all = flow::follow(&ended, &edges, &waiting);
            if !all.children.keys().all(|child| locked.contains(child)) {
                return Err(error::concurrent_change());
            }
            ended = cancelled(&all);
            woken.extend(self.apply(connection, all).await?);
        }
        Ok(woken)
    }

    /// Like `follow`, with none of the waiting jobs locked yet.
    pub(crate) async fn lock_and_follow(
        self,
        connection: &mut PgConnection,
        ended: BTreeMap<JobId, Status>,
    ) -> sqlx::Result<Woken> {
        let waiting = affected(connection, ended.clone()).await?;
        locking::lock_waiting(connection, &waiting).await?;
        self.follow(connection, ended, &waiting).await
    }

    async fn apply(
        self,
        connection: &mut PgConnection,
        Consequences { met, children }: Consequences,
    ) -> sqlx::Result<Woken> {
        if !met.is_empty() {
            sqlx::query(*sql::FLOW_MEET)
                .bind(met.iter().map(|(parent, ..)| uuid(*parent)).collect::<Vec<_>>())
                .bind(met.iter().map(|(_, child, _)| uuid(*child)).collect::<Vec<_>>())
                .bind(met.iter().map(|(.., succeeded)| *succeeded).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        let (mut waits, mut starts, mut cancels) = (Vec::new(), Vec::new(), Vec::new());
        for (id, next) in &children {
            match next {
                Next::Wait(left) => waits.push((*id, *left)),
                Next::Start => starts.push(*id),
                Next::Cancel(reason) => cancels.push((*id, reason.as_str())),
            }
        }
        if !waits.is_empty() {
            sqlx::query(*sql::FLOW_WAIT)
                .bind(waits.iter().map(|(id, _)| uuid(*id)).collect::<Vec<_>>())
                .bind(waits.iter().map(|(_, left)| left.on as i32).collect::<Vec<_>>())
                .bind(waits.iter().map(|(_, left)| left.any_failed).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        self.cancel(connection, cancels).await?;
        let mut woken = Woken::new();
        for (table, ids) in self.tables.of(starts, |id| *id) {
            let ids: Vec<Uuid> = ids.iter().map(|id| uuid(*id)).collect();
            let query = sqlx::query(sql::of_table(*sql::FLOW_START, &table)).bind(self.now).bind(ids);
            for row in query.fetch_all(&mut *connection).await? {
                woken.push((row.try_get(0)?, rows::instant(&row, 1)?));
            }
        }
        Ok(woken)
    }

    async fn cancel(self, connection: &mut PgConnection, jobs: Vec<(JobId, &str)>) -> sqlx::Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        locking::lock_keys(connection, &jobs.iter().map(|(id, _)| uuid(*id)).collect::<Vec<_>>()).await?;
        for (table, jobs) in self.tables.of(jobs, |(id, _)| *id) {
            sqlx::query(sql::of_table(*sql::FLOW_CANCEL, &table))
                .bind(self.now)
                .bind(jobs.iter().map(|(id, _)| uuid(*id)).collect::<Vec<_>>())
                .bind(jobs.iter().map(|(_, reason)| *reason).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    /// Counts the ends of jobs for their workflows.
    pub(crate) async fn count_ends(
        self,
        connection: &mut PgConnection,
        ended: &BTreeMap<JobId, Status>,
    ) -> sqlx::Result<()> {
        for (table, ended) in self.tables.of(ended, |(id, _)| **id) {
            let (ids, times) = locking::ids_and_times(ended.iter().map(|(id, _)| *id));
            sqlx::query(sql::of_table(*sql::ADD_ENDS, &table))
                .bind(self.now)
                .bind(ids)
                .bind(times)
                .bind(ended.iter().map(|(_, status)| status.as_str()).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}

/// Notifies claims of the jobs that were released.
pub(crate) fn announce(store: &Core, woken: &Woken) {
    woken.iter().for_each(|(lane, run_at)| store.lanes.put(*lane, *run_at));
    if !woken.is_empty() {
        store.scan_bounds.changed();
        store.hints.notify_work();
    }
}
