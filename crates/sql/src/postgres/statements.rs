//! The texts of this engine's own statements, one file per noun; the hot ones have files of their own. Those of the
//! shared operations are `shared_statements`. `tests/golden/postgres.sql` shows each as it is sent.

use std::{fmt::Write, sync::LazyLock};

use punctual_core::{Status, dispatch, measure};

use crate::sections::section;

/// The columns of a job, in the order in which [`super::rows::job`] reads them.
const COLUMNS: &str = "j.id, j.name, j.queue, j.status, j.priority, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts,
    j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
    j.updated_at, j.started_at, j.finished_at, j.options, j.payload, j.progress, j.result, j.error";

/// The current columns of a job, where `r` is its row in `punctual_running`, if any; then the worker, the end of the
/// lease, the number of events, the lane, and when the last stored event was written.
const COLUMNS_NOW: &str = "j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at";

/// Maximum size of a payload, in bytes, that is also stored in `punctual_ready`, so that a claim need not read the
/// job's row.
const INLINE_MAX_BYTES: usize = 1_000;

/// Increases with every change of queue settings, and whenever a queue is given to a dispatcher.
const QUEUES_REVISION: &str = "((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues))";

/// The concurrency key in a job's options.
const KEY: &str = "options::json ->> 'concurrency_key'";

/// The current time: that of a test's clock, or the transaction's.
const NOW: &str = "coalesce($1::timestamptz, now())";

macro_rules! statements {
    ($($file:literal { $($name:ident)* })*) => {
        $($(pub(crate) static $name: LazyLock<&'static str> = LazyLock::new(|| {
            fill(const { section(include_str!(concat!("sql/", $file, ".sql")), stringify!($name)) })
        });)*)*

        /// All statements, by name.
        #[cfg(test)]
        pub(super) fn all() -> Vec<(&'static str, &'static str)> {
            vec![$($((stringify!($name), *$name)),*),*]
        }

        /// The files, each with the names of its statements.
        #[cfg(test)]
        pub(super) const FILES: &[(&str, &[&str])] =
            &[$((include_str!(concat!("sql/", $file, ".sql")), &[$(stringify!($name)),*])),*];
    };
}

statements! {
    "hot/enqueue" {
        ENQUEUE_TEXT ENQUEUE_ROWS ENQUEUE_ROWS_ALIKE ENQUEUE_OPTIONS ENQUEUE_WAITING_TEXT
    }
    "hot/promote" {
        PROMOTE DUE_OPTIONS NEXT_DUE
    }
    "hot/claim" {
        CLAIM_TEXT CLAIM_PLACES_ONE CLAIM_PLACES_MANY CLAIM_PLACES_CHOSEN CLAIM_AHEAD CLAIM_READ
    }
    "hot/settle" {
        SETTLE_TEXT SETTLE_ROWS SETTLE_ROWS_ALIKE SETTLE_HELD SETTLE_QUEUED SETTLE_LATENESS SETTLE_ACTIVE BEGIN
        BEGIN_REFUSED
    }
    "jobs" {
        JOB JOBS KNOWN_JOBS JOB_STATES UPDATE_JOB SET_RETENTION RESULTS DELETE_JOBS
    }
    "keys" {
        KEYS_TAKE KEYS_PASS_ON KEYS_HOLDERS KEYS_ALONE KEYS_HOLD KEYS_OF KEYS_HOLDER KEYS_RETAKE
    }
    "leases" {
        EXTEND_LEASES CONFIRM HELD_LEASES EXPIRED_LEASES LEASES_OF END_LEASES SUSPECTS_LANES SUSPECTS_MOVE
    }
    "lanes" {
        LANES INSERT_LANES
    }
    "history" {
        EVENTS CHANGES CHANGES_STAND CHANGES_JOBS ANNOUNCE_LATE_COMMIT PRUNE_LATE_COMMITS LOGS INSERT_LOGS
        SET_PROGRESS
    }
    "limits" {
        LIMITS_WORK LIMITS_LOCK LIMITS_WAIT LIMITS_BEGIN MOVE_LATE_STARTS DUE_WAKEUPS INSERT_WAKEUPS WAKE_QUEUE
        HELD_OF_KEYS HELD_OF_QUEUES STARTS ADD_STARTS TURNS SAVE_TURNS DELETE_OLD_TURNS DELETE_HEADS INSERT_HEADS
        HEADS KEYED_FIRST PLAIN_FIRST PRUNE_LIMITS SLOTS_RELEASE SLOTS_RELEASE_OF SLOTS_OCCUPIED
    }
    "flow" {
        INSERT_DEPENDENCIES MARK_PARENTS PARENTS_OF CHILDREN_OF RELATIVES FLOW_PENDING FLOW_HOLD FLOW_MEET FLOW_WAIT
        FLOW_START FLOW_CANCEL DELETE_DEPENDENCIES INSERT_WORKFLOW WORKFLOW WORKFLOWS ADD_ENDS CHANGE_ENDS NODES
        NODES_FORMER INSERT_NODES
    }
    "lists" {
        LIST_DETAILS LIST_NEWEST LIST_LANES LIST_LANE LIST_LABEL LIST_ENDED LIST_DELETED LIST_DUE LIST_RUNNING
        LIST_WAITING
    }
    "changes" {
        CHANGE_HOLD_RUNNING CHANGE_HOLD_READY CHANGE_HOLD_DUE CHANGE_HOLD_JOBS CHANGE_LEAVE_READY CHANGE_LEAVE_DUE
        CHANGE_SAVE
    }
    "counters" {
        COUNTS PENDING DEAD_BY_NAME ROLLUPS ROLL_UP_COUNTS ROLL_UP_PENDING ROLL_UP_ROLLUPS ROLL_UP_ENDS
    }
    "retention" {
        EXPIRABLE EXPIRABLE_BY_JOB PURGEABLE EPHEMERAL PRUNE FORGET_DROPPED_PARTITION
    }
    "transfer" {
        DEPENDENCIES_OF IMPORT_PARENTS
    }
    "dispatch" {
        DISPATCH DISPATCH_QUEUES DISPATCH_UNREACHABLE DISPATCH_EXTEND DISPATCH_GIVE DISPATCH_GIVE_ALL DISPATCH_OPEN
        DISPATCH_OPENED DISPATCH_DUE QUEUED_IN_LANE DUE_BETWEEN STAND_IN_PLACES UNDISPATCHED MARK_DISPATCHED
    }
}

/// A statement in two by two forms: for rows that are alike or not, and without or with a part that few rows need.
pub(crate) struct Forms([[&'static str; 2]; 2]);

impl Forms {
    fn new(text: &str, rows: [&str; 2], mark: &str, part: &str) -> Self {
        Self(rows.map(|rows| ["", part].map(|part| leak(text.replace("{rows}", rows).replace(mark, part)))))
    }

    /// Transforms each form; the callback receives whether the form is for rows that are alike.
    fn map(self, change: impl Fn(bool, String) -> String) -> Self {
        let [unlike, alike] = self.0;
        let all = |is_alike, forms: [&'static str; 2]| forms.map(|text| leak(change(is_alike, text.to_owned())));
        Self([all(false, unlike), all(true, alike)])
    }

    /// The form for these rows.
    pub(crate) const fn of(&self, alike: bool, with_part: bool) -> &'static str {
        self.0[alike as usize][with_part as usize]
    }
}

/// Enqueues jobs whose ids are new; the optional part is for attributes that few jobs have. Fails if an id exists.
pub(crate) static ENQUEUE: LazyLock<[Forms; 2]> = LazyLock::new(|| enqueue("new_jobs", "", "new_jobs limit 1"));

/// Like [`ENQUEUE`], but skips jobs whose ids exist. Detecting them takes time.
pub(crate) static ENQUEUE_UNKNOWN: LazyLock<[Forms; 2]> =
    LazyLock::new(|| enqueue("stored", "on conflict do nothing returning *", "stored"));

fn enqueue(new: &str, passing: &str, answer: &str) -> [Forms; 2] {
    let (text, part) = (ENQUEUE_TEXT.replace("{passing}", passing).replace("{answer}", answer), *ENQUEUE_OPTIONS);
    [DispatchedBy::Enqueuer, DispatchedBy::Loader].map(|dispatched_by| {
        let [text, part] = [&text, part].map(|text| dispatched_by.fill(&text.replace("{new}", new)));
        Forms::new(&text, [*ENQUEUE_ROWS, *ENQUEUE_ROWS_ALIKE], "{options}", &part)
    })
}

/// Which process dispatches new jobs, that is, informs the dispatcher of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DispatchedBy {
    /// The process that stores them; or there is no dispatcher.
    Enqueuer,
    /// The processes that look for undispatched jobs.
    Loader,
}

impl DispatchedBy {
    fn fill(self, text: &str) -> String {
        let far = format!("run_at > created_at + {} * interval '1 microsecond'", dispatch::HORIZON.as_micros());
        let (ready, due) = match self {
            Self::Enqueuer => ("true", "true"),
            Self::Loader => ("false", far.as_str()),
        };
        text.replace("{dispatched}", ready).replace("{due_dispatched}", due)
    }
}

/// Enqueues jobs that wait for others; their ids are new.
pub(crate) static ENQUEUE_WAITING: LazyLock<&'static str> = LazyLock::new(|| {
    let part = DispatchedBy::Loader.fill(&ENQUEUE_OPTIONS.replace("{new}", "new_jobs"));
    leak(ENQUEUE_WAITING_TEXT.replace("{options}", &part))
});

/// Claims jobs from one lane, or from several.
pub(crate) static CLAIM: LazyLock<[&'static str; 2]> =
    LazyLock::new(|| [*CLAIM_PLACES_ONE, *CLAIM_PLACES_MANY].map(|places| claim(places, "null")));

/// Claims jobs that the limits allow.
pub(crate) static CLAIM_CHOSEN: LazyLock<&'static str> = LazyLock::new(|| {
    claim(*CLAIM_PLACES_CHOSEN, "coalesce(taken.limit_key, case when taken.lane = any ($10::int4[]) then '' end)")
});

fn claim(places: &str, limit_key: &str) -> &'static str {
    leak(CLAIM_TEXT.replace("{places}", places).replace("{limit_key}", limit_key))
}

/// The final statuses of jobs, each with its number in `punctual_events.final`.
pub(crate) const ENDS: [(Status, i16); 3] = [(Status::Dead, 1), (Status::Cancelled, 2), (Status::Succeeded, 3)];

/// Makes the index of final events usable for finding any event, whatever the status of its job.
const ANY_END: &str = "e.final = any ('{0, 1, 2, 3}'::int2[])";

/// The number of a settled job's final status.
const FINAL: &str = "case {ended.status} when 'succeeded' then 3 when 'dead' then 1 else 0 end";

/// Settles executions whose ends have no consequences; the optional part is for settlements that do not finish their
/// job directly.
pub(crate) static SETTLE: LazyLock<Forms> = LazyLock::new(|| settle(" and not r.flow"));

/// Settles any executions. The caller applies the consequences.
pub(crate) static SETTLE_FLOW: LazyLock<Forms> = LazyLock::new(|| settle(""));

/// Settles executions that succeeded and are not recorded yet. Used only in the form for executions that ended alike
/// and finished their jobs.
pub(crate) static FINISH: LazyLock<Forms> = LazyLock::new(|| settle_text(*SETTLE_QUEUED, "queued", *SETTLE_LATENESS));

fn settle(unless_flow: &str) -> Forms {
    settle_text(&SETTLE_HELD.replace("{unless_flow}", unless_flow), "processing", "")
}

/// Settles the executions that `held` selects, of jobs that are counted under the status `was`.
fn settle_text(held: &str, was: &str, lateness: &str) -> Forms {
    let text = SETTLE_TEXT.replace("{held}", held).replace("{was}", was).replace("{lateness}", lateness);
    let forms = Forms::new(&text, [*SETTLE_ROWS, *SETTLE_ROWS_ALIKE], "{active}", &SETTLE_ACTIVE);
    // The first two columns are needed only by `held`, so they are not returned.
    let each = SETTLE_COLUMNS[2..].iter().fold(String::new(), |all, (column, ..)| format!("{all}, s.{column}"));
    forms.map(|alike, text| {
        let column = |text: String, (column, number, kind): &(&str, usize, &str)| {
            let parameter = format!("${number}::{kind}");
            let [row, kept] =
                if alike { [parameter.clone(), parameter] } else { [format!("s.{column}"), format!("ended.{column}")] };
            text.replace(&format!("{{s.{column}}}"), &row).replace(&format!("{{ended.{column}}}"), &kept)
        };
        let text = text.replace("{returning}", if alike { "" } else { &each });
        SETTLE_COLUMNS.iter().fold(text, column)
    })
}

/// The attributes that executions which ended alike share, each with its parameter.
const SETTLE_COLUMNS: [(&str, usize, &str); 9] = [
    ("worker_id", 6, "uuid"),
    ("only_if_expired", 7, "bool"),
    ("attempt_status", 8, "text"),
    ("status", 9, "text"),
    ("delay", 10, "int8"),
    ("gives_back", 11, "bool"),
    ("first", 12, "text"),
    ("second", 13, "text"),
    ("error", 14, "text"),
];

/// The condition for a job to have been created at about the time that its id carries. If such a job was queued at
/// first, it is found by its row; otherwise an event is stored, by which it is found.
const FRESH: &str = "scheduled_at between created_at - interval '1 second' and created_at + interval '1 second'";

/// The condition for a job that has not changed since it was queued. The row also changes when another job depends on
/// it.
const AS_IT_CAME: &str = "j.status = 'queued' and j.events = 1 and j.progress is null and {fresh}
            and (not j.flow or j.workflow_id is not null or j.created_at > $2::timestamptz)";

/// The condition for an event that is still its job's end, or is no end: a retry changes the row of a former end.
const STANDING_END: &str = "(e.final <> 0 or e.status not in ('succeeded', 'dead', 'cancelled'))";

/// Whether a row was stored by a transaction that had not ended at the previous read, and had at this one. Rows carry
/// the lower half of the transaction's number.
fn new_since(table: &str) -> String {
    let number = if table == "l" { "l.whole".to_owned() } else { format!("({table}.xmin::text::int8)") };
    let half = u32::MAX;
    let open = |next: u8, open: u8| {
        format!("((({number} - ${next}::int8) & {half}) < 2147483648 or {number} = any (${open}::int8[]))")
    };
    format!("{} and not {}", open(4, 5), open(6, 7))
}

/// Inserts the parts that several statements share.
fn fill(text: &'static str) -> &'static str {
    if !text.contains('{') {
        return text;
    }
    let text = ["l", "e", "r", "j"].into_iter().fold(text.to_owned(), |text, table| {
        let mark = format!("{{new:{table}}}");
        if text.contains(&mark) { text.replace(&mark, &new_since(table)) } else { text }
    });
    let text = text
        .replace("{standing}", STANDING_END)
        .replace("{as_it_came}", AS_IT_CAME)
        .replace("{fresh}", FRESH)
        .replace("{columns}", COLUMNS)
        .replace("{columns_now}", COLUMNS_NOW)
        .replace("{buckets}", &BUCKETS)
        .replace("{any_end}", ANY_END)
        .replace("{queues_revision}", QUEUES_REVISION)
        .replace("{freed}", include_str!("sql/parts/slots_freed.sql").trim_ascii_end())
        .replace("{key}", KEY)
        .replace("{final}", FINAL)
        .replace("{now}", NOW);
    leak(text.replace("{inline}", &INLINE_MAX_BYTES.to_string()))
}

/// Leaks a text: it is made once and is needed as long as the process runs.
fn leak(text: String) -> &'static str {
    String::leak(text)
}

/// The lower bounds of all buckets of [`measure`] but the first, in microseconds, for `width_bucket`.
static BUCKETS: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::from("'{");
    let mut next: u16 = 1;
    for start in (0..62).flat_map(|power: u32| (0..4u64).map(move |quarter| (1 << power) + quarter * (1 << power) / 4))
    {
        let bucket = measure::bucket(std::time::Duration::from_micros(start));
        while next <= bucket {
            let _ = write!(text, "{}{start}", if next == 1 { "" } else { "," });
            next += 1;
        }
    }
    text.push_str("}'::float8[]");
    text
});

/// A statement about jobs of several tables, each with its own parameters for ids and times.
pub(crate) fn of_tables<'a>(text: &str, tables: impl Iterator<Item = &'a String>) -> sqlx::AssertSqlSafe<String> {
    let part = |(number, table): (usize, &String)| {
        let [ids, times] = [2 * number + 1, 2 * number + 2].map(|parameter| format!("${parameter}"));
        text.replace("{jobs}", table).replace("{ids}", &ids).replace("{times}", &times)
    };
    sqlx::AssertSqlSafe(tables.enumerate().map(part).collect::<Vec<_>>().join("\nunion all\n"))
}

/// A statement about jobs of one table: `{jobs}` is replaced with a day's partition, or with the partitioned table.
pub(crate) fn of_table(text: &str, table: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(text.replace("{jobs}", table))
}
