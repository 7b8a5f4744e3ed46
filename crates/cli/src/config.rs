//! `punctual.toml`, with flags and the environment taking precedence.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use punctual::{
    Punctual, Worker, WorkerBuilder,
    admin::Retention,
    core::{Invalid, RetentionPolicy, StoreError},
};
use serde::Deserialize;

use crate::{
    alerts::{AlertsConfig, alerts},
    args::{Cli, QueueConfig, WorkerArgs},
    exit::Usage,
    format::Span,
    handlers,
    recurring::ScheduleArgs,
};

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    store: Option<String>,
    /// Redis in front of the store.
    dispatch: Option<String>,
    /// Redis servers for locks.
    locks: Vec<String>,
    lock_jobs: bool,
    worker: WorkerConfig,
    retention: RetentionConfig,
    /// The name under which this program owns the schedules of this file.
    application: Option<String>,
    /// Schedules by name. Without the table, the schedules in the store are not changed.
    schedules: Option<BTreeMap<String, ScheduleArgs>>,
    /// Queue settings by queue name.
    queues: BTreeMap<String, QueueConfig>,
    /// Programs as handlers, by job name.
    handlers: BTreeMap<String, handlers::ProgramConfig>,
    /// Alert settings.
    alerts: Option<AlertsConfig>,
    /// The folder of the file.
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WorkerConfig {
    queues: Option<Vec<String>>,
    strict: bool,
    concurrency: Option<usize>,
    lease: Option<Span>,
    drain_timeout: Option<Span>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RetentionConfig {
    succeeded: Option<Span>,
    dead: Option<Span>,
    cancelled: Option<Span>,
    deleted: Option<Span>,
    history: Option<Span>,
    notifications: Option<Span>,
}

impl Config {
    /// Reads the file that the command line names, or `punctual.toml` if it exists.
    pub(crate) fn read(cli: &Cli) -> Result<Self> {
        let path = cli.config.as_deref().unwrap_or(Path::new("punctual.toml"));
        if cli.config.is_none() && !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Usage(format!("cannot read the configuration {}: {error}", path.display())))?;
        let mut config: Self = toml::from_str(&text)
            .map_err(|error| Usage(format!("in the configuration {}, {}", path.display(), located(&text, &error))))?;
        config.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(config)
    }

    /// The URL of the store, with the URLs of the dispatcher and the lock servers as parameters.
    pub(crate) fn store_url(&self, cli: &Cli) -> String {
        let store = cli.store.as_ref().or(self.store.as_ref()).map_or("sqlite:punctual.db", String::as_str);
        let Some(dispatch) = cli.dispatch.as_ref().or(self.dispatch.as_ref()) else { return store.to_owned() };
        let mut url = format!("{store}{}dispatch={dispatch}", if store.contains('?') { '&' } else { '?' });
        let locks = cli.locks.clone().unwrap_or_else(|| self.locks.join(","));
        if !locks.is_empty() {
            url.push_str(&format!("&locks={locks}"));
        }
        if cli.lock_jobs || self.lock_jobs {
            url.push_str("&lock_jobs=true");
        }
        url
    }

    /// Whether the file names a store.
    pub(crate) const fn names_store(&self) -> bool {
        self.store.is_some()
    }

    /// Connects to the store.
    pub(crate) async fn connect(&self, cli: &Cli) -> Result<Punctual> {
        Ok(Punctual::connect(&self.store_url(cli)).await?)
    }

    /// Connects to the store for a worker: waits while its server is read-only, such as a standby before its promotion.
    pub(crate) async fn connect_to_work(&self, cli: &Cli) -> Result<Punctual> {
        let punctual = self.connect_to_serve(cli).await?;
        punctual.until_writable().await;
        Ok(punctual)
    }

    /// Connects to the store; waits while its server is read-only and its schema is missing or outdated.
    pub(crate) async fn connect_to_serve(&self, cli: &Cli) -> Result<Punctual> {
        const RETRY_EVERY: Duration = Duration::from_secs(1);
        let mut is_logged = false;
        loop {
            match Punctual::connect(&self.store_url(cli)).await {
                // The schema must be migrated first.
                Err(punctual::Error::Store(error @ StoreError::ReadOnlyServer { .. })) => {
                    if !is_logged {
                        tracing::error!(%error, "waiting until the store can be written");
                        is_logged = true;
                    }
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                connected => return Ok(connected?),
            }
        }
    }

    /// Refuses handlers with invalid settings.
    fn check_handlers(&self) -> Result<()> {
        self.handlers.iter().try_for_each(|(name, program)| program.handler(name, &self.folder).map(drop))?;
        Ok(())
    }

    /// The job names that the file has handlers for.
    pub(crate) fn handler_names(&self) -> impl Iterator<Item = &str> {
        self.handlers.keys().map(String::as_str)
    }

    /// Stores the queue and schedule settings of the file before work starts.
    pub(crate) async fn prepare(&self, punctual: &Punctual) -> Result<()> {
        self.check_handlers()?;
        self.sync_queues(punctual).await?;
        self.sync_schedules(punctual).await
    }

    /// Synchronises the schedules of the file to the store, and prints the changes.
    async fn sync_schedules(&self, punctual: &Punctual) -> Result<()> {
        let Some(schedules) = &self.schedules else { return Ok(()) };
        let owner = match &self.application {
            Some(application) => application,
            None if punctual.store().info().engine == "sqlite" => "punctual.toml",
            // Two programs with the same name would remove each other's schedules.
            None => {
                let problem =
                    "required in a store that several programs share: it names the owner of these [schedules]";
                return Err(Invalid::new("application", problem).into());
            }
        };
        let recurring = schedules.iter().map(|(name, schedule)| {
            schedule.clone().recurring(name).with_context(|| format!("[schedules.{name}] of the configuration"))
        });
        let synced = punctual.sync_schedules(owner, recurring.collect::<Result<Vec<_>>>()?).await?;
        for (what, names) in [("added", &synced.added), ("changed", &synced.changed)] {
            if !names.is_empty() {
                eprintln!("schedules {what}: {}", names.join(", "));
            }
        }
        for name in synced.removed {
            eprintln!("warning: removed the schedule {name}, which {owner} no longer defines");
        }
        for name in synced.skipped {
            eprintln!("warning: schedule {name} not changed: its owner is not {owner}");
        }
        Ok(())
    }

    /// Copies the queue settings of the file to the store.
    async fn sync_queues(&self, punctual: &Punctual) -> Result<()> {
        let admin = punctual.admin("punctual.toml");
        for (name, queue) in &self.queues {
            let section = || format!("[queues.{name}] of the configuration");
            let defaults = queue.defaults().input().defaults().with_context(section)?;
            admin.set_queue_defaults(name, defaults).await.with_context(section)?;
            if let Some(limits) = &queue.limits {
                admin.set_queue_limits(name, limits.clone()).await.with_context(section)?;
            }
        }
        Ok(())
    }

    /// How long finished jobs and other records are kept.
    pub(crate) fn retention(&self) -> Retention {
        let default = Retention::default();
        let or = |own: Option<Span>, default: Duration| own.map_or(default, |span| span.0);
        Retention {
            keep: RetentionPolicy {
                succeeded: or(self.retention.succeeded, default.keep.succeeded),
                dead: or(self.retention.dead, default.keep.dead),
                cancelled: or(self.retention.cancelled, default.keep.cancelled),
            },
            deleted: or(self.retention.deleted, default.deleted),
            history: or(self.retention.history, default.history),
            notifications: or(self.retention.notifications, default.notifications),
        }
    }

    /// A worker with the built-in handlers and the configured ones.
    pub(crate) fn worker(&self, punctual: Punctual, args: &WorkerArgs) -> Result<WorkerBuilder> {
        let own = &self.worker;
        let mut worker = handlers::built_in(Worker::builder(punctual)).retention(Some(self.retention()));
        for (name, program) in &self.handlers {
            worker = worker.handler(name.clone(), program.handler(name, &self.folder)?);
        }
        if let Some(queues) = args.queues.clone().or_else(|| own.queues.clone()) {
            worker = in_order(worker, queues, args.strict || own.strict)?;
        }
        if let Some(concurrency) = args.concurrency.or(own.concurrency) {
            worker = worker.concurrency(concurrency);
        }
        if let Some(Span(lease)) = args.lease.or(own.lease) {
            worker = worker.lease(lease);
        }
        if let Some(Span(timeout)) = args.drain_timeout.or(own.drain_timeout) {
            worker = worker.drain_timeout(timeout);
        }
        if let Some(alerts) = alerts(self.alerts.as_ref(), &args.alerts, &self.folder)? {
            worker = worker.alerts(alerts);
        }
        Ok(worker)
    }
}

/// Sets the worker's queues, in order: `a,b`, or `a=5,b=1` with a weight per queue.
fn in_order(worker: WorkerBuilder, queues: Vec<String>, strict: bool) -> Result<WorkerBuilder> {
    let weighted: Vec<(&str, &str)> = queues.iter().filter_map(|queue| queue.rsplit_once('=')).collect();
    if weighted.is_empty() {
        return Ok(if strict { worker.strict_queues(queues) } else { worker.queues(queues) });
    }
    let wrong = |problem: &str| Invalid::new("queues", problem.to_owned());
    if strict || weighted.len() < queues.len() {
        return Err(
            wrong("expected a weight for every queue, as in a=5,b=1, or for none; strict excludes weights").into()
        );
    }
    let weight = |(queue, weight): (&str, &str)| {
        let weight = weight.parse().map_err(|_| wrong("a weight is a number between 1 and 1000, as in a=5,b=1"))?;
        Ok((queue.to_owned(), weight))
    };
    Ok(worker.weighted_queues(weighted.into_iter().map(weight).collect::<Result<Vec<_>, Invalid>>()?))
}

/// The actor for the audit trail: the user of the machine.
pub(crate) fn actor() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    user.map_or_else(|| "cli".to_owned(), |user| format!("cli:{}", user.name))
}

/// Parses JSON of the command line; errors name the field.
pub(crate) fn parse_json<T: serde::de::DeserializeOwned>(field: &'static str, text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| {
            Invalid::new(field, format!("is not JSON: {error}; text needs double quotes, as in '\"text\"'"))
        })
        .context("nothing was enqueued")
}

/// The position of an error in the configuration, and what was expected. Values are hidden, since any may be a
/// password.
pub(crate) fn located(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
    let key = text[line_start..].lines().next().and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
    let key = key.filter(|key| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "._-\"'".contains(c)));
    let key = key.map(|key| format!(", key {key}")).unwrap_or_default();
    let values = text.parse::<toml::Table>().map(toml::Value::Table).unwrap_or(toml::Value::Boolean(true));
    let mut message = error.message().to_owned();
    hide_values(&values, &mut message);
    format!("line {line}, column {column}{key}: {message}")
}

/// Removes the values of a configuration from a message that quotes them.
fn hide_values(value: &toml::Value, message: &mut String) {
    let mut hide = |text: &str| {
        for quoted in [format!("{text:?}"), format!("`{text}`"), format!("'{text}'")] {
            *message = message.replace(&quoted, "`…`");
        }
    };
    match value {
        toml::Value::Array(values) => values.iter().for_each(|value| hide_values(value, message)),
        toml::Value::Table(values) => values.values().for_each(|value| hide_values(value, message)),
        toml::Value::String(text) if text.is_empty() => {}
        toml::Value::String(text) => hide(text),
        // A password may consist of digits and therefore not be quoted.
        other => hide(&other.to_string()),
    }
}
