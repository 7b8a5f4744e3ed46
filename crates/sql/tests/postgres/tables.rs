//! The contents of PostgreSQL's tables, in a form that is comparable with core's decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    AttemptId, AttemptStatus, JobId, Json, Spec, Status, Timestamp,
    effects::{Entries, Index, Phase},
};
use punctual_sql::postgres::{
    Options,
    sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row, postgres::PgRow, query, raw_sql},
};

/// A connection to the schema of a store.
pub(crate) struct Connection(PgConnection);

impl Connection {
    pub(crate) async fn open(options: &Options) -> Self {
        let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
        let prepare = format!(
            "set search_path to {}; create function pg_temp.us(timestamptz) returns int8 language sql
             as $$ select (extract(epoch from $1) * 1000000)::int8 $$",
            options.schema
        );
        raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
        Self(connection)
    }

    async fn rows(&mut self, sql: &'static str) -> Vec<PgRow> {
        query(sql).fetch_all(&mut self.0).await.unwrap()
    }
}

/// An entry in an index: the index, the job, and the columns of the entry.
pub(crate) type Entry = (String, JobId, String);

/// The contents of the tables at one time.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) jobs: BTreeMap<JobId, StoredJob>,
    pub(crate) entries: BTreeSet<Entry>,
    /// By scope and key: the job that holds a unique key, and when it expires.
    pub(crate) keys: BTreeMap<(String, String), (JobId, Option<Timestamp>)>,
    pub(crate) totals: BTreeMap<String, i64>,
    pub(crate) events: BTreeMap<JobId, Vec<StoredEvent>>,
    pub(crate) attempts: BTreeMap<AttemptId, AttemptStatus>,
    pub(crate) leases: BTreeMap<JobId, StoredLease>,
    pub(crate) slots: BTreeSet<AttemptId>,
}

/// A job, as far as transitions depend on it.
pub(crate) struct StoredJob {
    pub(crate) id: JobId,
    pub(crate) spec: Spec,
    pub(crate) workflow: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) created_at: Timestamp,
    /// Its number of events.
    pub(crate) events: usize,
    is_suspect: bool,
}

/// An event of a job.
pub(crate) struct StoredEvent {
    pub(crate) number: usize,
    pub(crate) at: Timestamp,
    pub(crate) status: Status,
    pub(crate) run: Option<u32>,
    pub(crate) has_actor: bool,
}

/// The lease of a running job.
pub(crate) struct StoredLease {
    is_limited: bool,
    until: Timestamp,
}

impl StoredLease {
    /// Whether the execution occupies a slot in a limit after this time.
    pub(crate) fn is_limited_at(&self, at: Timestamp) -> bool {
        self.is_limited && self.until > at
    }
}

impl StoredJob {
    /// The entries that core derives from its state.
    pub(crate) fn index_entries(&self) -> Entries {
        Entries::of(&self.phase)
    }

    /// The scope of its unique key, and the key.
    pub(crate) fn key(&self) -> Option<(String, String)> {
        self.spec.unique_key().map(|(scope, key)| (scope, key.to_owned()))
    }

    /// The rows that it should have.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let Spec { queue, name, priority, options, .. } = &self.spec;
        let Entries { index, end, expiry, deleted, .. } = self.index_entries();
        let us = |at: Timestamp| at.as_micros().to_string();
        let mut entries = Vec::new();
        let mut add = |index: &str, content: String| entries.push((index.to_owned(), self.id, content));
        match index {
            Some(Index::Ready { run_at }) => {
                let level = i32::from(*priority) + if self.is_suspect { 16 } else { 0 };
                let (key, keyed) = (options.concurrency_key.as_deref(), options.concurrency_key.is_some());
                let (run_at, key) = (us(run_at), key.unwrap_or_default());
                add("ready", format!("{run_at}|{queue}|{name}|{level}|{keyed}|{key}"));
            }
            Some(Index::Due { run_at }) => add("due", format!("{}|{}", us(run_at), self.phase.status)),
            Some(Index::Waiting { run_at }) => add("waiting", us(run_at)),
            Some(Index::Running) => add("running", String::new()),
            None => {}
        }
        if let Some((status, at)) = end {
            // The numbers of ends in punctual_events.final.
            let number = match status {
                Status::Dead => 1,
                Status::Cancelled => 2,
                _ => 3,
            };
            add("end", format!("{}|{status}|{number}", us(at)));
        }
        expiry.into_iter().for_each(|at| add("expiry", us(at)));
        deleted.into_iter().for_each(|at| add("deleted", us(at)));
        if self.spec.ephemeral {
            add("ephemeral", String::new());
        }
        self.spec.user_id.iter().for_each(|user| add("user", user.clone()));
        entries
    }

    fn of(row: &PgRow) -> Self {
        let mut spec = Spec::new(row.get::<String, _>("name"), Json::null());
        spec.queue = row.get("queue");
        spec.priority = u8::try_from(row.get::<i16, _>("priority")).unwrap();
        spec.user_id = row.get("user_id");
        spec.unique_key = row.get("unique_key");
        spec.ephemeral = row.get("ephemeral");
        spec.keep_for = row.get::<Option<i64>, _>("keep_for_ms").map(|ms| Duration::from_millis(ms as u64));
        let options = row.get::<Option<String>, _>("options");
        spec.options = options.map(|options| serde_json::from_str(&options).unwrap()).unwrap_or_default();
        let phase = Phase {
            status: word(row, "status"),
            run_at: at(row, "run_at").unwrap(),
            updated_at: at(row, "updated_at").unwrap(),
            finished_at: at(row, "finished_at"),
            keep_for: spec.keep_for,
        };
        Self {
            id: id(row),
            spec,
            workflow: row.get("workflow"),
            phase,
            created_at: at(row, "created_at").unwrap(),
            events: row.get::<i32, _>("events") as usize,
            is_suspect: row.get::<i32, _>("crash_count") > 0,
        }
    }
}

fn id(row: &PgRow) -> JobId {
    let digits = row.get::<String, _>("id").replace('-', "");
    JobId::from_bits(u128::from_str_radix(&digits, 16).unwrap())
}

fn attempt(row: &PgRow) -> AttemptId {
    AttemptId { job: id(row), run: row.get::<i32, _>("run") as u32 }
}

fn at(row: &PgRow, column: &str) -> Option<Timestamp> {
    row.get::<Option<i64>, _>(column).map(Timestamp::from_micros)
}

fn word<T: std::str::FromStr<Err: std::fmt::Debug>>(row: &PgRow, column: &str) -> T {
    row.get::<String, _>(column).parse().unwrap()
}

impl Tables {
    pub(crate) async fn read(connection: &mut Connection) -> Self {
        let mut tables = Self::default();
        let jobs = connection.rows(JOBS).await;
        tables.jobs = jobs.iter().map(StoredJob::of).map(|job| (job.id, job)).collect();
        for row in connection.rows(ENTRIES).await {
            tables.entries.insert((row.get("entry"), id(&row), row.get("content")));
        }
        for row in connection.rows(KEYS).await {
            tables.keys.insert((row.get("scope"), row.get("key")), (id(&row), at(&row, "expires_at")));
        }
        for row in connection.rows(TOTALS).await {
            tables.totals.insert(row.get("counter"), row.get("n"));
        }
        for row in connection.rows(EVENTS).await {
            let event = StoredEvent {
                number: row.get::<i32, _>("n") as usize,
                at: at(&row, "at").unwrap(),
                status: word(&row, "status"),
                run: row.get::<Option<i32>, _>("run").map(|run| run as u32),
                has_actor: row.get("has_actor"),
            };
            tables.events.entry(id(&row)).or_default().push(event);
        }
        for row in connection.rows(ATTEMPTS).await {
            tables.attempts.insert(attempt(&row), word(&row, "status"));
        }
        for row in connection.rows(LEASES).await {
            let lease = StoredLease { is_limited: row.get("is_limited"), until: at(&row, "lease_until").unwrap() };
            tables.leases.insert(id(&row), lease);
        }
        tables.slots = connection.rows(SLOTS).await.iter().map(attempt).collect();
        tables
    }
}

const JOBS: &str = "
    select id::text as id, name, queue, priority, user_id, unique_key, ephemeral, keep_for_ms, options, status,
        workflow_id::text as workflow, crash_count, events, pg_temp.us(run_at) as run_at,
        pg_temp.us(updated_at) as updated_at, pg_temp.us(finished_at) as finished_at,
        pg_temp.us(created_at) as created_at
    from punctual_jobs_now";

const ENTRIES: &str = "
    select 'ready' as entry, r.id::text as id, concat_ws('|',
        pg_temp.us(r.run_at), l.queue, l.name, l.priority, l.keyed::text, coalesce(r.limit_key, '')) as content
    from punctual_ready r join punctual_lanes l on l.lane = r.lane
    union all
    select 'due', id::text, concat_ws('|', pg_temp.us(run_at), status) from punctual_due
    union all
    select 'waiting', id::text, pg_temp.us(run_at)::text from punctual_waiting
    union all
    select 'running', id::text, '' from punctual_running
    union all
    select 'end', job_id::text, concat_ws('|', pg_temp.us(at), status, final) from punctual_events where final > 0
    union all
    select 'expiry', id::text, pg_temp.us(expires_at)::text from punctual_expiries
    union all
    select 'deleted', id::text, pg_temp.us(deleted_at)::text from punctual_deleted
    union all
    select 'ephemeral', id::text, '' from punctual_ephemeral
    union all
    select 'user', id::text, value from punctual_labels where kind = 'user'";

const KEYS: &str = "
    select scope, key, job_id::text as id, pg_temp.us(expires_at) as expires_at from punctual_keys";

/// The counters. Rollups of all hours together: a claim ahead of time counts in the hour in which it is made.
const TOTALS: &str = "
    select concat_ws('|', 'count', l.queue, l.name, c.status) as counter, sum(c.n)::int8 as n
    from (select * from punctual_counts union all select * from punctual_counts_new) c
    join punctual_lanes l on l.lane = c.lane group by l.queue, l.name, c.status
    union all
    select concat_ws('|', 'pending', user_id, name), sum(n)::int8
    from (select * from punctual_pending union all select * from punctual_pending_new) p group by user_id, name
    union all
    select concat_ws('|', 'measure', l.queue, l.name, r.measure, r.bucket), sum(r.n)::int8
    from (select * from punctual_rollups union all select * from punctual_rollups_new) r
    join punctual_lanes l on l.lane = r.lane group by l.queue, l.name, r.measure, r.bucket
    union all
    select concat_ws('|', 'ends', e.workflow, n.status), sum(n.n)::int8
    from (
        select id as workflow, succeeded, dead, cancelled from punctual_workflows
        union all
        select workflow, succeeded, dead, cancelled from punctual_ends_pending) e
    cross join lateral (
        values ('succeeded', e.succeeded), ('dead', e.dead), ('cancelled', e.cancelled)) n (status, n)
    group by e.workflow, n.status";

const EVENTS: &str = "
    select substr(job_id, 5) as id, n, pg_temp.us(at) as at, status, run, actor is not null as has_actor
    from punctual_events_readable order by job_id, n";

const ATTEMPTS: &str = "
    select job_id::text as id, run, status from punctual_attempts where finished_at is not null";

const LEASES: &str = "
    select id::text as id, limit_key is not null as is_limited, pg_temp.us(lease_until) as lease_until
    from punctual_running";

const SLOTS: &str = "select job_id::text as id, run from punctual_occupied_slots";
