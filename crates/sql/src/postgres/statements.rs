//! The texts of all statements, one file each, by name.

use std::{fmt::Write, sync::LazyLock};

use punctual_core::{Status, dispatch, measure};

/// The columns of a job, in the order in which [`super::rows::job`] reads them.
const COLUMNS: &str = "j.id, j.name, j.queue, j.status, j.priority, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts,
    j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
    j.updated_at, j.started_at, j.finished_at, j.options, j.payload, j.progress, j.result, j.error";

/// The same of a job as it stands now, where `r` is its row in `punctual_running`, if any; then who holds it and until
/// when, how many events it has, its lane, and when the last of its events was written that is stored.
const COLUMNS_NOW: &str = "j.id, j.name, j.queue, case when r.id is null then j.status else 'processing' end, j.priority, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id,
    j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral,
    coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on),
    j.created_at, coalesce(r.started_at, j.updated_at),
    coalesce(r.started_at, j.started_at), j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until,
    coalesce(r.events, j.events), j.lane, j.updated_at";

/// A payload of at most so many bytes goes with its job to the claim, which need not look for it then.
const INLINE_MAX_BYTES: usize = 1_000;

/// How often anything was said of queues, or one was given to a dispatcher.
const QUEUES_REVISION: &str = "((select coalesce(sum(revision), 0)::int8 from punctual_queues)
        + (select coalesce(sum(epoch), 0)::int8 from punctual_dispatch_queues))";

/// The concurrency key in a job's options.
const KEY: &str = "options::json ->> 'concurrency_key'";

/// The time: a test's, or the transaction's.
const NOW: &str = "coalesce($1::timestamptz, now())";

macro_rules! statements {
    ($($name:ident $file:literal)*) => {
        $(pub(crate) static $name: LazyLock<&'static str> = LazyLock::new(|| fill(include_str!(concat!("sql/", $file, ".sql"))));)*

        /// All of them, by name.
        #[cfg(test)]
        pub(super) fn all() -> Vec<(&'static str, &'static str)> {
            vec![$((stringify!($name), *$name)),*]
        }
    };
}

statements! {
    ENQUEUE_TEXT "enqueue"
    ENQUEUE_OPTIONS "enqueue_options"
    ENQUEUE_ROWS "enqueue_rows"
    ENQUEUE_ROWS_ALIKE "enqueue_rows_alike"
    KEYS_TAKE "keys_take"
    KEYS_TURN_OVER "keys_turn_over"
    KEYS_HOLDERS "keys_holders"
    KEYS_ALONE "keys_alone"
    JOB_UPDATE "job_update"
    KEYS_HOLD "keys_hold"
    KEYS_OF "keys_of"
    KEYS_HOLDER "keys_holder"
    KEYS_RETAKE "keys_retake"
    LANES "lanes"
    LANES_ADD "lanes_add"
    PROMOTE "promote"
    DUE_OPTIONS "due_options"
    CLAIM_TEXT "claim"
    CLAIM_PLACES_ONE "claim_places_one"
    CLAIM_PLACES_MANY "claim_places_many"
    CLAIM_AHEAD "claim_ahead"
    CLAIM_READ "claim_read"
    SETTLE_TEXT "settle"
    SETTLE_HELD "settle_held"
    SETTLE_QUEUED "settle_queued"
    SETTLE_LATENESS "settle_lateness"
    BEGIN "begin"
    BEGIN_REFUSED "begin_refused"
    QUEUED "queued"
    DUE_BETWEEN "due_between"
    DISPATCH_DUE "dispatch_due"
    UNDISPATCHED "undispatched"
    MARK_DISPATCHED "mark_dispatched"
    NEXT_DUE "next_due"
    STAND "stand"
    SUSPECTS_LANES "suspects_lanes"
    SUSPECTS_MOVE "suspects_move"
    DISPATCH "dispatch"
    DISPATCH_QUEUES "dispatch_queues"
    DISPATCH_MISSED "dispatch_missed"
    DISPATCH_PROLONG "dispatch_prolong"
    DISPATCH_GIVE "dispatch_give"
    DISPATCH_GIVE_ALL "dispatch_give_all"
    DISPATCH_OPEN "dispatch_open"
    DISPATCH_OPENED "dispatch_opened"
    SETTLE_ACTIVE "settle_active"
    SETTLE_ROWS "settle_rows"
    SETTLE_ROWS_ALIKE "settle_rows_alike"
    EXTEND "extend"
    CONFIRM "confirm"
    HELD "held"
    PROGRESS "progress"
    LOGS_ADD "logs_add"
    EXPIRED "expired"
    LEASES_OF "leases_of"
    GET "get"
    GET_MANY "get_many"
    EVENTS "events"
    DEPENDENCIES_OF "dependencies_of"
    IMPORT_PARENTS "import_parents"
    CHANGES "changes"
    CHANGES_STAND "changes_stand"
    CHANGES_JOBS "changes_jobs"
    LATECOMERS_TRIM "latecomers_trim"
    TELL_IN "tell_in"
    LOGS "logs"
    COUNTS "counts"
    PENDING "pending"
    DEAD_BY_NAME "dead_by_name"
    ROLLUPS "rollups"
    BEAT "beat"
    LEAVE "leave"
    END_LEASES "end_leases"
    WORKERS "workers"
    SCHEDULES "schedules"
    SCHEDULE "schedule"
    UPCOMING "upcoming"
    SCHEDULES_SAVE "schedules_save"
    SCHEDULE_REMOVE "schedule_remove"
    SCHEDULE_EVENTS_ADD "schedule_events_add"
    SCHEDULE_EVENTS "schedule_events"
    LOCK "lock"
    LOCK_EXTEND "lock_extend"
    UNLOCK "unlock"
    LOCKS "locks"
    NOTIFY "notify"
    NOTIFICATIONS "notifications"
    NOTIFICATIONS_OF_USER "notifications_of_user"
    NOTIFICATIONS_LAST "notifications_last"
    NOTIFICATIONS_DROP "notifications_drop"
    TOKEN_ADD "token_add"
    TOKENS "tokens"
    TOKEN_REMOVE "token_remove"
    TOKENS_TRIM "tokens_trim"
    TOKENS_CLEAR "tokens_clear"
    ONCE "once"
    REQUESTS_TRIM "requests_trim"
    LIST_DETAILS "list_details"
    LIST_NEWEST "list_newest"
    LIST_LANES "list_lanes"
    LIST_LABEL "list_label"
    LIST_ENDED "list_ended"
    LIST_DELETED "list_deleted"
    LIST_DUE "list_due"
    LIST_RUNNING "list_running"
    LIST_LANE "list_lane"
    CHANGE_HOLD_RUNNING "change_hold_running"
    CHANGE_HOLD_READY "change_hold_ready"
    CHANGE_HOLD_DUE "change_hold_due"
    CHANGE_HOLD_JOBS "change_hold_jobs"
    CHANGE_LEAVE_READY "change_leave_ready"
    CHANGE_LEAVE_DUE "change_leave_due"
    CHANGE_SAVE "change_save"
    RETIRABLE_ENDED "retirable_ended"
    RETIRABLE_KEPT "retirable_kept"
    KEEP_JOB "keep_job"
    PURGEABLE "purgeable"
    EPHEMERAL "ephemeral"
    REMOVE "remove"
    FOLD_COUNTS "fold_counts"
    FOLD_PENDING "fold_pending"
    FOLD_ROLLUPS "fold_rollups"
    TRIM "trim"
    OLD_DAY_FORGET "old_day_forget"
    ENQUEUE_WAITING_TEXT "enqueue_waiting"
    QUEUES "queues"
    QUEUE_SAVE "queue_save"
    QUEUE_EVENTS "queue_events"
    STANDING "standing"
    KNOWN "known"
    DEPENDENCIES_ADD "dependencies_add"
    PARENTS_MARK "parents_mark"
    FLOW_PENDING "flow_pending"
    FLOW_HOLD "flow_hold"
    FLOW_MEET "flow_meet"
    FLOW_WAIT "flow_wait"
    FLOW_START "flow_start"
    FLOW_CANCEL "flow_cancel"
    ENDS_ADD "ends_add"
    ENDS_CHANGE "ends_change"
    FOLD_ENDS "fold_ends"
    WORKFLOW_ADD "workflow_add"
    NODES_FORMER "nodes_former"
    NODES_ADD "nodes_add"
    WORKFLOW "workflow"
    WORKFLOWS "workflows"
    NODES "nodes"
    RELATIVES "relatives"
    RESULTS "results"
    PARENTS_OF "parents_of"
    CHILDREN_OF "children_of"
    LIST_WAITING "list_waiting"
    CLAIM_PLACES_CHOSEN "claim_places_chosen"
    LIMITS_WORK "limits_work"
    LIMITS_LOCK "limits_lock"
    LIMITS_WAIT "limits_wait"
    LIMITS_BEGIN_MOMENT "limits_begin_moment"
    LIMITS_TRIM "limits_trim"
    LIMITS_BEGIN "limits_begin"
    LIMITS_MARKED "limits_marked"
    LIMITS_MARK "limits_mark"
    LIMITS_MARK_QUEUE "limits_mark_queue"
    LIMITS_HELD "limits_held"
    LIMITS_HELD_OF_QUEUES "limits_held_of_queues"
    SLOTS_RELEASE "slots_release"
    SLOTS_RELEASE_OF "slots_release_of"
    SLOTS_OCCUPIED "slots_occupied"
    LIMITS_STARTS "limits_starts"
    LIMITS_STARTED "limits_started"
    LIMITS_TURNS "limits_turns"
    LIMITS_TURNED "limits_turned"
    LIMITS_FORGET "limits_forget"
    LIMITS_CLOSE "limits_close"
    LIMITS_OPEN "limits_open"
    LIMITS_HEADS "limits_heads"
    LIMITS_KEYED "limits_keyed"
    LIMITS_PLAIN "limits_plain"
}

/// A statement in two times two forms: for rows that are alike or not, and without or with a part that few rows need.
pub(crate) struct Forms([[&'static str; 2]; 2]);

impl Forms {
    fn new(text: &str, rows: [&str; 2], mark: &str, part: &str) -> Self {
        Self(rows.map(|rows| ["", part].map(|part| leak(text.replace("{rows}", rows).replace(mark, part)))))
    }

    /// Each form changed, knowing whether it is for rows that are alike.
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

/// The enqueue of jobs whose ids are new; its part is for what few jobs have. Fails if an id is known.
pub(crate) static ENQUEUE: LazyLock<[Forms; 2]> = LazyLock::new(|| enqueue("x", "", "x limit 1"));

/// The same, but passes over jobs whose ids are known. To look for them and to tell them apart takes time.
pub(crate) static ENQUEUE_UNKNOWN: LazyLock<[Forms; 2]> =
    LazyLock::new(|| enqueue("i", "on conflict do nothing returning *", "i"));

fn enqueue(new: &str, passing: &str, answer: &str) -> [Forms; 2] {
    let (text, part) = (ENQUEUE_TEXT.replace("{passing}", passing).replace("{answer}", answer), *ENQUEUE_OPTIONS);
    [Tells::Enqueuer, Tells::Loader].map(|tells| {
        let [text, part] = [&text, part].map(|text| tells.fill(&text.replace("{new}", new)));
        Forms::new(&text, [*ENQUEUE_ROWS, *ENQUEUE_ROWS_ALIKE], "{options}", &part)
    })
}

/// Who tells the dispatcher of new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tells {
    /// Whoever stores them; or there is none.
    Enqueuer,
    /// Those who look for jobs of which it has not been told.
    Loader,
}

impl Tells {
    fn fill(self, text: &str) -> String {
        let far = format!("run_at > created_at + {} * interval '1 microsecond'", dispatch::HORIZON.as_micros());
        let (ready, due) = match self {
            Self::Enqueuer => ("true", "true"),
            Self::Loader => ("false", far.as_str()),
        };
        text.replace("{dispatched}", ready).replace("{due_dispatched}", due)
    }
}

/// The enqueue of jobs that wait for others; their ids are new.
pub(crate) static ENQUEUE_WAITING: LazyLock<&'static str> = LazyLock::new(|| {
    // Two columns more than others have.
    let rows = ENQUEUE_ROWS.replace("$18::int4[])", "$18::int4[], $19::int4[], $20::bool[])");
    let rows = rows.replace("ephemeral, lane)", "ephemeral, lane, waiting_on, any_failed)");
    let part = Tells::Loader.fill(&ENQUEUE_OPTIONS.replace("{new}", "x"));
    leak(ENQUEUE_WAITING_TEXT.replace("{rows}", &rows).replace("{options}", &part))
});

/// The claim, of one lane or of several.
pub(crate) static CLAIM: LazyLock<[&'static str; 2]> =
    LazyLock::new(|| [*CLAIM_PLACES_ONE, *CLAIM_PLACES_MANY].map(|places| claim(places, "null")));

/// The claim of jobs that the limits allow.
pub(crate) static CLAIM_CHOSEN: LazyLock<&'static str> = LazyLock::new(|| {
    claim(*CLAIM_PLACES_CHOSEN, "coalesce(x.limit_key, case when x.lane = any ($10::int4[]) then '' end)")
});

fn claim(places: &str, limit_key: &str) -> &'static str {
    leak(CLAIM_TEXT.replace("{places}", places).replace("{limit_key}", limit_key))
}

/// How jobs come to an end, each with its number in `punctual_events.final`.
pub(crate) const ENDS: [(Status, i16); 3] = [(Status::Dead, 1), (Status::Cancelled, 2), (Status::Succeeded, 3)];

/// Lets the index of events be used to find one, however its job stands.
const ANY_END: &str = "e.final = any ('{0, 1, 2, 3}'::int2[])";

/// The number of a settled job's end.
const FINAL: &str = "case {l.status} when 'succeeded' then 3 when 'dead' then 1 else 0 end";

/// The settle of executions from whose end nothing follows; its part is for those that are not the end of their job at
/// once.
pub(crate) static SETTLE: LazyLock<Forms> = LazyLock::new(|| settle(" and not r.flow"));

/// The settle of any executions. Whoever uses it sees to what follows.
pub(crate) static SETTLE_FLOW: LazyLock<Forms> = LazyLock::new(|| settle(""));

/// The settle of executions that succeeded, of which nothing is recorded yet. Only the form for those that ended alike,
/// and whose job has.
pub(crate) static FINISH: LazyLock<Forms> = LazyLock::new(|| settle_text(*SETTLE_QUEUED, "queued", *SETTLE_LATENESS));

fn settle(unless_flow: &str) -> Forms {
    settle_text(&SETTLE_HELD.replace("{unless_flow}", unless_flow), "processing", "")
}

/// A settle of the executions that `held` says, of jobs that `was` is counted for.
fn settle_text(held: &str, was: &str, lateness: &str) -> Forms {
    let text = SETTLE_TEXT.replace("{held}", held).replace("{was}", was).replace("{lateness}", lateness);
    let forms = Forms::new(&text, [*SETTLE_ROWS, *SETTLE_ROWS_ALIKE], "{active}", &SETTLE_ACTIVE);
    // The first two are only looked at while the row is held.
    let each = SETTLE_COLUMNS[2..].iter().fold(String::new(), |all, (column, ..)| format!("{all}, s.{column}"));
    forms.map(|alike, text| {
        let column = |text: String, (column, number, kind): &(&str, usize, &str)| {
            let parameter = format!("${number}::{kind}");
            let [row, kept] =
                if alike { [parameter.clone(), parameter] } else { [format!("s.{column}"), format!("l.{column}")] };
            text.replace(&format!("{{s.{column}}}"), &row).replace(&format!("{{l.{column}}}"), &kept)
        };
        let text = text.replace("{returning}", if alike { "" } else { &each });
        SETTLE_COLUMNS.iter().fold(text, column)
    })
}

/// What executions that ended alike have in common, each with its parameter.
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

/// Jobs that are queued at first and came at about the time that their ids carry are found by it. Of others an event is
/// stored, by which they are.
const FRESH: &str = "scheduled_at between created_at - interval '1 second' and created_at + interval '1 second'";

/// A job that nothing has happened to since it was queued. That others wait for it now changes its row, too.
const AS_IT_CAME: &str = "j.status = 'queued' and j.events = 1 and j.progress is null and {fresh}
            and (not j.flow or j.workflow_id is not null or j.created_at > $2::timestamptz)";

/// An end that still is one: a retry changes its row, too.
const STANDING_END: &str = "(e.final <> 0 or e.status not in ('succeeded', 'dead', 'cancelled'))";

/// Whether a row was stored by a transaction that had not ended at one look, and had at the next. Rows know the lower
/// half of its number.
fn new_since(table: &str) -> String {
    let number = if table == "l" { "l.whole".to_owned() } else { format!("({table}.xmin::text::int8)") };
    let half = u32::MAX;
    let open = |next: u8, open: u8| {
        format!("((({number} - ${next}::int8) & {half}) < 2147483648 or {number} = any (${open}::int8[]))")
    };
    format!("{} and not {}", open(4, 5), open(6, 7))
}

/// Puts in what several statements share.
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
        .replace("{freed}", include_str!("sql/slots_freed.sql"))
        .replace("{key}", KEY)
        .replace("{final}", FINAL)
        .replace("{now}", NOW);
    leak(text.replace("{inline}", &INLINE_MAX_BYTES.to_string()))
}

/// Texts are made once, and are as good as written in the program.
fn leak(text: String) -> &'static str {
    String::leak(text)
}

/// Where each bucket of [`measure`] but the first begins, in microseconds, so that `width_bucket` finds the number.
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

/// A statement about jobs of some tables, each with parameters of its own for ids and times.
pub(crate) fn of_tables<'a>(text: &str, tables: impl Iterator<Item = &'a String>) -> sqlx::AssertSqlSafe<String> {
    let part = |(number, table): (usize, &String)| {
        let [ids, times] = [2 * number + 1, 2 * number + 2].map(|parameter| format!("${parameter}"));
        text.replace("{jobs}", table).replace("{ids}", &ids).replace("{times}", &times)
    };
    sqlx::AssertSqlSafe(tables.enumerate().map(part).collect::<Vec<_>>().join("\nunion all\n"))
}

/// A statement about jobs of one table: `{jobs}` stands for a day's partition, or for the parent of all.
pub(crate) fn of_table(text: &str, table: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(text.replace("{jobs}", table))
}
