//! The configuration: `punctual.toml`, with the environment and flags taking precedence.
//!
//! | question | file |
//! |---|---|
//! | which keys are there? | `keys` |
//! | where in the file is a key, and what is wrong with its syntax? | `file` |
//! | which key does a variable set? | `variables` |
//! | which other variables are there, and how are secrets read? | `environment`, `flags` |
//! | where does each value come from, and is it of its type? | `settings` |
//! | is it all valid, as far as can be told without connecting? | `check` |

pub(crate) mod check;
pub(crate) mod environment;
pub(crate) mod file;
mod flags;
pub(crate) mod keys;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod variables;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use punctual::{
    Punctual, Recurring, Worker, WorkerBuilder,
    admin::Retention,
    core::{Create, Invalid, RetentionPolicy, StoreError, Timestamp},
};
use serde::Deserialize;

use self::{environment::Environment, settings::Settings};
use crate::{
    alerts::{AlertsConfig, alerts},
    args::{Cli, QueueConfig, WorkerArgs},
    exit::Usage,
    format::Span,
    handlers,
    recurring::ScheduleArgs,
};

/// Why an owner of schedules is required.
const OWNER_REQUIRED: &str = "required in a store that several programs share: it names the owner of these [schedules]";

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
    /// Reads the environment and the file that the command line names, or `punctual.toml` if it exists; prints
    /// warnings.
    pub(crate) fn read(cli: &Cli) -> Result<Self> {
        let settings = Settings::load(cli.config.as_deref(), &Environment::of_process());
        if !cli.command.is_supervised() {
            settings.warnings.iter().for_each(|warning| warn(cli, warning));
        }
        match settings.problems.as_slice() {
            [] => Ok(Self::of(&settings)?),
            [problem] => Err(Usage(problem.clone()).into()),
            [problem, others @ ..] => {
                let count = others.len();
                Err(Usage(format!("{problem}; `punctual config check` lists {count} more problems")).into())
            }
        }
    }

    /// The configuration with these settings, whose types were checked.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Usage> {
        // The message of the parser may contain a value.
        let contradictory = |_| Usage("the settings of the configuration contradict each other".to_owned());
        let config: Self = settings.table().try_into().map_err(contradictory)?;
        Ok(Self { folder: settings.folder(), ..config })
    }

    /// The URL of the store, with the URLs of the dispatcher and the lock servers as parameters.
    pub(crate) fn store_url(&self, cli: &Cli) -> String {
        // An empty variable counts as not set.
        let given = |flag: &Option<String>| flag.clone().filter(|text| !text.is_empty());
        let store = given(&cli.store).or_else(|| self.store.clone()).unwrap_or_else(|| "sqlite:punctual.db".to_owned());
        let Some(dispatch) = given(&cli.dispatch).or_else(|| self.dispatch.clone()) else { return store };
        let mut url = format!("{store}{}dispatch={dispatch}", if store.contains('?') { '&' } else { '?' });
        let locks = given(&cli.locks).unwrap_or_else(|| self.locks.join(","));
        if !locks.is_empty() {
            url.push_str(&format!("&locks={locks}"));
        }
        if cli.lock_jobs || self.lock_jobs {
            url.push_str("&lock_jobs=true");
        }
        url
    }

    /// Whether the file or the environment names a store.
    pub(crate) const fn names_store(&self) -> bool {
        self.store.is_some()
    }

    /// Connects to the store; creates it for commands that store something new.
    pub(crate) async fn connect(&self, cli: &Cli) -> Result<Punctual> {
        let create = if cli.command.adds() { Create::InEmpty } else { Create::Nothing };
        Ok(Punctual::connect_with(&self.store_url(cli), create).await?)
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
            match Punctual::connect_with(&self.store_url(cli), Create::InEmpty).await {
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
        let schedules = self.recurring(punctual.store().now())?;
        self.sync_queues(punctual).await?;
        match schedules {
            Some(schedules) => self.sync_schedules(punctual, schedules).await,
            None => Ok(()),
        }
    }

    /// The schedules of the file, if it has any, checked as of `now`.
    fn recurring(&self, now: Timestamp) -> Result<Option<Vec<Recurring>>> {
        let Some(schedules) = &self.schedules else { return Ok(None) };
        let checked = schedules.iter().map(|(name, schedule)| {
            let section = || format!("[schedules.{name}] of the configuration");
            let recurring = schedule.clone().recurring(name).with_context(section)?;
            recurring.clone().check_defined(now).with_context(section)?;
            Ok(recurring)
        });
        checked.collect::<Result<Vec<_>>>().map(Some)
    }

    /// Synchronises the schedules of the file to the store, and prints the changes.
    async fn sync_schedules(&self, punctual: &Punctual, schedules: Vec<Recurring>) -> Result<()> {
        let owner = match &self.application {
            Some(application) => application,
            None if punctual.store().info().engine == "sqlite" => "punctual.toml",
            // Two programs with the same name would remove each other's schedules.
            None => return Err(Invalid::new("application", OWNER_REQUIRED).into()),
        };
        let synced = punctual.sync_schedules(owner, schedules).await?;
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
        let mut worker = handlers::built_in(Worker::builder(punctual), |name| self.handlers.contains_key(name))
            .retention(Some(self.retention()));
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

/// Prints a warning about the configuration.
fn warn(cli: &Cli, warning: &str) {
    if cli.json {
        eprintln!("{}", serde_json::json!({ "warning": warning }));
    } else {
        eprintln!("warning: {warning}");
    }
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
