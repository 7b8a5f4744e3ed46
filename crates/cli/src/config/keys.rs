//! The keys of `punctual.toml`, in one list: their types, flags, variables and defaults. Everything that reads, checks,
//! shows or documents a key takes it from here.

/// A key, or all keys of this pattern.
#[derive(Debug)]
pub(crate) struct Key {
    /// The path, such as `queues.*.priority`; `*` stands for a name.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    pub(crate) secrecy: Secrecy,
    /// The flag, and its variable, which is shorter than the one that follows from the path.
    pub(crate) flag: Option<(&'static str, &'static str)>,
    /// The default, in words; empty if there is none.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text; errors say what is expected of it.
    Text(&'static str),
    Integer,
    Boolean,
    /// Several texts; in a variable, an array or a list with commas.
    Texts(&'static str),
    /// Several numbers; in a variable, an array or a list with commas.
    Integers,
    /// Any value; in a variable, TOML or JSON, otherwise text.
    Any,
}

/// Whether a value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// It is shown.
    Public,
    /// It is not shown.
    Hidden,
    /// It is not shown, and a file may contain it, named by the key or the variable with `_file` at its end.
    Secret,
}

impl Kind {
    /// What is expected of a value.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Text(expected) | Self::Texts(expected) => expected,
            Self::Integer => "a whole number that is not too large or negative",
            Self::Boolean => "true or false",
            Self::Integers => "a list of whole numbers, such as [65, 66]",
            Self::Any => "a value that JSON can represent",
        }
    }
}

impl Key {
    const fn secret(mut self) -> Self {
        self.secrecy = Secrecy::Secret;
        self
    }

    const fn hidden(mut self) -> Self {
        self.secrecy = Secrecy::Hidden;
        self
    }

    const fn flag(mut self, flag: &'static str, variable: &'static str) -> Self {
        self.flag = Some((flag, variable));
        self
    }

    /// The parts of its path.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.split('.')
    }

    /// The variable that follows from the path, with `NAME` for a name.
    pub(crate) fn variable(&self) -> String {
        let segments = self.segments().map(|part| if part == "*" { "NAME".to_owned() } else { part.to_uppercase() });
        format!("PUNCTUAL_{}", segments.collect::<Vec<_>>().join("__"))
    }
}

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, secrecy: Secrecy::Public, flag: None, default, about }
}

const ANY_TEXT: Kind = Kind::Text("text in quotes");
const NAMES: Kind = Kind::Texts("a list of texts, such as [\"a\", \"b\"]");
const TIME: Kind = Kind::Text("a duration: a number and a unit, such as 1500ms, 90s, 5m, 1h 30m or 7d");
const RATE: Kind = Kind::Text("a rate: a number per duration, such as 100/1m");
const SIZE: Kind = Kind::Text("a size: a number and a unit, such as 256MiB, 1GiB or 64MB");
const STORE_URL: Kind =
    Kind::Text("a URL, such as sqlite:punctual.db, postgres://user@host/database or sqlserver://user@host/database");
const REDIS_URL: Kind = Kind::Text("a URL: redis://, rediss://, redis+cluster:// or redis+sentinel://");
const REDIS_URLS: Kind = Kind::Texts("a list of URLs, such as [\"redis://a\", \"redis://b\", \"redis://c\"]");
const RETRY: Kind = Kind::Text("a policy: none, fixed:10s, linear:10s, exponential:5s or list:1s,10s,1m");
const INSTANT: Kind = Kind::Text("a time, such as 2026-03-01T12:00:00Z");
const MISFIRE: Kind = Kind::Text("run-once, catch-up-limited:N or ignore");
const OVERLAP: Kind = Kind::Text("allow, skip or cancel-previous");
const RESULT: Kind = Kind::Text("line, file or none");
const LEVEL: Kind = Kind::Text("debug, info, warn or error");
const ALERTS: Kind = Kind::Texts("a list of dead_jobs, missed_schedule, no_workers, late");
const URL: Kind = Kind::Text("a URL that begins with https:// or http://");
const FILE: Kind = Kind::Text("the path of a file");
const NUMBER: Kind = Kind::Integer;
const SWITCH: Kind = Kind::Boolean;

/// All keys.
pub(crate) const KEYS: &[Key] = &[
    key("store", STORE_URL, "sqlite:punctual.db", "Store URL.").secret().flag("--store", "PUNCTUAL_STORE"),
    key("dispatch", REDIS_URL, "", "Redis in front of a PostgreSQL store.")
        .secret()
        .flag("--dispatch", "PUNCTUAL_DISPATCH"),
    key("locks", REDIS_URLS, "the server of `dispatch`", "Independent Redis servers for locks.")
        .secret()
        .flag("--locks", "PUNCTUAL_LOCKS"),
    key("lock_jobs", SWITCH, "false", "Also lock each job on these servers until PostgreSQL has recorded its start.")
        .flag("--lock-jobs", "PUNCTUAL_LOCK_JOBS"),
    key("application", ANY_TEXT, "punctual.toml (SQLite only)", "Owner of the schedules of this configuration."),
    key("worker.queues", NAMES, "all queues", "Queues to work on; `a=5` sets a weight.")
        .flag("--queues", "PUNCTUAL_QUEUES"),
    key("worker.strict", SWITCH, "false", "Take from a queue only while those before it are empty.")
        .flag("--strict", "PUNCTUAL_STRICT"),
    key("worker.concurrency", NUMBER, "32", "Maximum concurrent jobs.").flag("--concurrency", "PUNCTUAL_CONCURRENCY"),
    key("worker.lease", TIME, "30s", "Lease of a job without a heartbeat.").flag("--lease", "PUNCTUAL_LEASE"),
    key("worker.drain_timeout", TIME, "30s", "Grace period for running jobs at shutdown.")
        .flag("--drain-timeout", "PUNCTUAL_DRAIN_TIMEOUT"),
    key("retention.succeeded", TIME, "7d", "Retention of succeeded jobs."),
    key("retention.dead", TIME, "90d", "Retention of dead jobs."),
    key("retention.cancelled", TIME, "7d", "Retention of cancelled jobs."),
    key("retention.deleted", TIME, "1d", "Retention of deleted jobs."),
    key("retention.history", TIME, "90d", "Retention of attempts, events and log lines."),
    key("retention.notifications", TIME, "7d", "Retention of notifications."),
    key("queues.*.priority", NUMBER, "5", "Default priority of the queue's jobs, 0 to 10."),
    key("queues.*.max_attempts", NUMBER, "10", "Default maximum attempts."),
    key("queues.*.timeout", TIME, "5m", "Default timeout per attempt."),
    key("queues.*.retry", RETRY, "exponential:5s", "Default retry policy."),
    key("queues.*.keep_for", TIME, "as `[retention]`", "Default retention after a job has finished."),
    key("queues.*.limits.concurrency", NUMBER, "unlimited", "Maximum concurrent jobs of the queue."),
    key("queues.*.limits.rate", RATE, "unlimited", "Maximum starts of the queue per period."),
    key("queues.*.limits.key_concurrency", NUMBER, "1", "Maximum concurrent jobs per concurrency key; 0: unlimited."),
    key("queues.*.limits.key_rate", RATE, "unlimited", "Maximum starts per concurrency key and period."),
    key("queues.*.limits.fair", SWITCH, "false", "Concurrency keys take turns."),
    key("queues.*.limits.weights.*", NUMBER, "1", "Turns of a concurrency key per turn of others."),
    key("schedules.*.cron", ANY_TEXT, "", "Cron expression, a macro such as `@daily`, or `@every 90s`; required."),
    key("schedules.*.job", ANY_TEXT, "", "Job name; required."),
    key("schedules.*.payload", Kind::Any, "null", "Payload of the jobs."),
    key("schedules.*.zone", ANY_TEXT, "UTC", "Time zone of the cron expression."),
    key("schedules.*.misfire", MISFIRE, "run-once", "What happens to occurrences that were missed."),
    key("schedules.*.overlap", OVERLAP, "allow", "What happens while the previous job is unfinished."),
    key("schedules.*.jitter", TIME, "0s", "Maximum delay of each occurrence."),
    key("schedules.*.start", INSTANT, "", "No occurrence before."),
    key("schedules.*.end", INSTANT, "", "No occurrence from then on."),
    key("schedules.*.description", ANY_TEXT, "", "Description."),
    key("schedules.*.queue", ANY_TEXT, "default", "Queue of the jobs."),
    key("schedules.*.priority", NUMBER, "of the queue", "Priority of the jobs."),
    key("schedules.*.max_attempts", NUMBER, "of the queue", "Maximum attempts."),
    key("schedules.*.timeout", TIME, "of the queue", "Timeout per attempt."),
    key("schedules.*.retry", RETRY, "of the queue", "Retry policy."),
    key("schedules.*.user", ANY_TEXT, "", "User that the jobs belong to."),
    key("schedules.*.tags", NAMES, "none", "Tags of the jobs."),
    key("schedules.*.keep_for", TIME, "of the queue", "Retention after a job has finished."),
    key("handlers.*.command", NAMES, "", "The program and its arguments."),
    key("handlers.*.shell", ANY_TEXT, "", "Instead of `command`: a command line for /bin/sh."),
    key("handlers.*.directory", FILE, "that of the file", "Working directory, relative to the configuration file."),
    key("handlers.*.env.*", ANY_TEXT, "", "Environment variable of the program.").hidden(),
    key("handlers.*.inherit", NAMES, "none", "Names of variables that are passed on to the program."),
    key("handlers.*.pool", NUMBER, "one process per job", "Maximum processes that run many jobs each."),
    key("handlers.*.jobs_per_process", NUMBER, "unlimited", "Jobs after which a process of a pool is replaced."),
    key("handlers.*.result", RESULT, "line", "Source of the result."),
    key("handlers.*.parent_results", SWITCH, "false", "Provide the results of the job's parents."),
    key("handlers.*.snooze", TIME, "1m", "Delay after a snooze without a duration."),
    key("handlers.*.fail_codes", Kind::Integers, "[65]", "Exit codes of permanent failures."),
    key("handlers.*.snooze_codes", Kind::Integers, "[75]", "Exit codes of snoozes."),
    key("handlers.*.stop_grace", TIME, "3s", "Time between SIGTERM and SIGKILL, at most 5s."),
    key("handlers.*.memory", SIZE, "unlimited", "Maximum memory of the program and its descendants."),
    key("handlers.*.processes", NUMBER, "unlimited", "Maximum processes and threads of its user."),
    key("handlers.*.cpu_time", TIME, "unlimited", "Maximum CPU time per process."),
    key("handlers.*.open_files", NUMBER, "of the worker", "Maximum open files per process."),
    key("handlers.*.user", ANY_TEXT, "of the worker", "User that the program runs as."),
    key("handlers.*.log_level", LEVEL, "info", "Minimum level of stored log lines."),
    key("alerts.late_after", TIME, "5m", "Maximum time for which the oldest job of a queue may have been due."),
    key("alerts.late_after_in.*", TIME, "`late_after`", "The same for one queue."),
    key("alerts.gather", TIME, "10s", "Time from the first death to its alert."),
    key("alerts.hold", TIME, "30s", "How long a condition must hold before it is reported."),
    key("alerts.reminder_interval", TIME, "1h", "Interval of reminders."),
    key("alerts.check_interval", TIME, "5s", "Interval of the checks."),
    key("alerts.dashboard", URL, "", "Base URL of the link in each alert."),
    key("alerts.webhooks.*.url", URL, "", "URL that alerts are sent to; required.").secret(),
    key("alerts.webhooks.*.secret_file", FILE, "", "File with the secret that signs the alerts."),
    key("alerts.webhooks.*.secret_env", ANY_TEXT, "", "Variable with that secret."),
    key("alerts.webhooks.*.kinds", ALERTS, "all", "Kinds of alerts that are sent."),
    key("alerts.webhooks.*.timeout", TIME, "10s", "Timeout of a delivery."),
];

/// What a path denotes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    /// A value.
    Key(&'static Key),
    /// A file with the value of a secret key.
    FileOf(&'static Key),
    /// A table.
    Table,
    /// Nothing.
    Unknown,
}

/// What a path denotes.
pub(crate) fn find(path: &[String]) -> Found {
    let matches = |key: &Key, path: &[String]| {
        let parts: Vec<_> = key.segments().take(path.len()).collect();
        parts.len() == path.len() && parts.iter().zip(path).all(|(part, name)| *part == "*" || part == name)
    };
    let whole = |path: &[String]| KEYS.iter().find(|key| key.segments().count() == path.len() && matches(key, path));
    if let Some(key) = whole(path) {
        return Found::Key(key);
    }
    if KEYS.iter().any(|key| matches(key, path)) {
        return Found::Table;
    }
    let value = path.split_last().and_then(|(last, table)| {
        let last = last.strip_suffix("_file")?.to_owned();
        whole(&[table, &[last]].concat()).filter(|key| key.secrecy == Secrecy::Secret)
    });
    value.map_or(Found::Unknown, Found::FileOf)
}

/// The keys that may stand directly in a table.
pub(crate) fn in_table(path: &[String]) -> Vec<&'static str> {
    let depth = path.len();
    let below = KEYS.iter().filter(|key| {
        let mut parts = key.segments();
        path.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == name))
    });
    let mut names: Vec<_> = below.filter_map(|key| key.segments().nth(depth)).filter(|part| *part != "*").collect();
    names.dedup();
    names
}

/// Whether the keys of a table are names that the user chooses.
pub(crate) fn takes_names(path: &[String]) -> bool {
    KEYS.iter().any(|key| {
        let mut parts = key.segments();
        path.iter().all(|name| parts.next().is_some_and(|part| part == "*" || part == name))
            && parts.next() == Some("*")
    })
}

/// The name most similar to a misspelled one, if one is similar at all.
pub(crate) fn nearest(name: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let name = name.to_lowercase();
    let by_distance = known.into_iter().map(|known| (distance(&name, &known.to_lowercase()), known));
    let (distance, known) = by_distance.min()?;
    (distance <= (name.chars().count() / 2).clamp(1, 3)).then_some(known)
}

/// The number of characters to insert, remove or replace.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, c) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *d);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn paths_denote_keys_tables_or_nothing() {
        assert!(matches!(find(&path("worker.lease")), Found::Key(key) if key.path == "worker.lease"));
        assert!(matches!(find(&path("queues.e-mail.limits.rate")), Found::Key(key) if key.kind == RATE));
        assert!(matches!(find(&path("queues.mail")), Found::Table));
        assert!(matches!(find(&path("store_file")), Found::FileOf(key) if key.path == "store"));
        assert!(matches!(find(&path("alerts.webhooks.ops.secret_file")), Found::Key(_)));
        assert!(matches!(find(&path("application_file")), Found::Unknown), "it is not secret");
        assert!(matches!(find(&path("worker.lease.x")), Found::Unknown));
    }

    #[test]
    fn a_misspelled_name_has_a_nearest_one() {
        let known = || ["succeeded", "dead", "cancelled"].map(str::to_owned);
        assert_eq!(nearest("suceeded", known()).as_deref(), Some("succeeded"));
        assert_eq!(nearest("deda", known()).as_deref(), Some("dead"));
        assert_eq!(nearest("Dead", known()).as_deref(), Some("dead"));
        assert_eq!(nearest("interval", known()), None);
    }
}
