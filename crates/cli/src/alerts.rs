//! `[alerts]` of the configuration, and the webhook settings of flags and the environment.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use clap::Args;
use punctual::{AlertKind, Alerts, Webhook, core::Invalid};
use serde::Deserialize;

use crate::{
    config::environment::{self, Environment},
    exit::Usage,
    format::Span,
};

/// Variable with the secret of webhooks that do not specify one.
const SECRET: &str = "PUNCTUAL_ALERT_SECRET";
/// Variable with the file of that secret.
const SECRET_FILE: &str = "PUNCTUAL_ALERT_SECRET_FILE";
/// Variable with the URL of the webhook that the command line specifies.
const URL: &str = "PUNCTUAL_ALERT_URL";
/// Name of the webhook that the command line specifies.
const OF_FLAGS: &str = "default";

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AlertArgs {
    /// Webhook URL for alerts, signed with the secret in PUNCTUAL_ALERT_SECRET or --alert-secret-file
    #[arg(long, env = "PUNCTUAL_ALERT_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) alert_url: Option<String>,
    /// File with the secret that signs alerts
    #[arg(long, env = "PUNCTUAL_ALERT_SECRET_FILE", value_name = "FILE")]
    pub(crate) alert_secret_file: Option<PathBuf>,
}

impl AlertArgs {
    /// The settings of the environment.
    pub(crate) fn of(environment: &Environment) -> Self {
        Self {
            alert_url: environment.get(URL).map(str::to_owned),
            alert_secret_file: environment.get(SECRET_FILE).map(PathBuf::from),
        }
    }

    /// The URL of the flag, of the variable, or of the file that a variable names.
    fn url(&self) -> Result<Option<String>, Usage> {
        let environment = Environment::of_process();
        let of_flag = self.alert_url.as_deref().filter(|url| environment.get(URL) != Some(*url));
        match of_flag {
            Some(url) => Ok(Some(url.to_owned())),
            None => environment.secret(URL).map_err(Usage),
        }
    }
}

/// The alert settings of the configuration, described in docs/alerts.md.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AlertsConfig {
    late_after: Option<Span>,
    /// Per queue name.
    late_after_in: BTreeMap<String, Span>,
    gather: Option<Span>,
    hold: Option<Span>,
    reminder_interval: Option<Span>,
    check_interval: Option<Span>,
    dashboard: Option<String>,
    webhooks: BTreeMap<String, WebhookConfig>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WebhookConfig {
    url: String,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    /// All kinds if absent.
    kinds: Option<Vec<AlertKind>>,
    timeout: Option<Span>,
}

/// The alerts that the configuration and the command line specify, if any; `folder` is that of the configuration file.
pub(crate) fn alerts(config: Option<&AlertsConfig>, args: &AlertArgs, folder: &Path) -> Result<Option<Alerts>, Usage> {
    let url = args.url()?;
    if config.is_none() && url.is_none() {
        return Ok(None);
    }
    let own = config.cloned().unwrap_or_default();
    let mut alerts = own.settings();
    for (name, webhook) in &own.webhooks {
        alerts = alerts.webhook(webhook.webhook(name, args, folder)?);
    }
    if let Some(url) = &url {
        let secret = shared_secret(args)?.ok_or_else(|| {
            Usage(format!("--alert-url: a signing secret is required; set {SECRET} or --alert-secret-file"))
        })?;
        let webhook = Webhook::new(OF_FLAGS, url, secret);
        webhook.check().map_err(|invalid| Usage(format!("--alert-{invalid}")))?;
        alerts = alerts.webhook(webhook);
    }
    alerts.check().map_err(|invalid| Usage(format!("alerts.{invalid}")))?;
    Ok(Some(alerts))
}

impl AlertsConfig {
    fn settings(&self) -> Alerts {
        let mut alerts = Alerts::new();
        if let Some(Span(limit)) = self.late_after {
            alerts = alerts.late_after(limit);
        }
        for (queue, Span(limit)) in &self.late_after_in {
            alerts = alerts.late_after_in(queue, *limit);
        }
        if let Some(Span(time)) = self.gather {
            alerts = alerts.gather(time);
        }
        if let Some(Span(time)) = self.hold {
            alerts = alerts.hold(time);
        }
        if let Some(Span(period)) = self.reminder_interval {
            alerts = alerts.reminder_interval(period);
        }
        if let Some(Span(interval)) = self.check_interval {
            alerts = alerts.check_interval(interval);
        }
        match &self.dashboard {
            Some(url) => alerts.dashboard(url),
            None => alerts,
        }
    }
}

impl WebhookConfig {
    fn webhook(&self, name: &str, args: &AlertArgs, folder: &Path) -> Result<Webhook, Usage> {
        let named = |problem: String| Usage(format!("alerts.webhooks.{name}.{problem}"));
        let secret = match (&self.secret_file, &self.secret_env) {
            (Some(_), Some(_)) => {
                return Err(named("secret_env: not allowed with secret_file; set one of them".into()));
            }
            (Some(path), None) => {
                read_secret(&folder.join(path)).map_err(|why| named(format!("secret_file: {why}")))?
            }
            (None, Some(variable)) => env::var(variable)
                .map_err(|_| named(format!("secret_env: environment variable {variable} is not set")))?
                .into_bytes(),
            (None, None) => shared_secret(args)?
                .ok_or_else(|| named(format!("secret_file: is missing; set it, secret_env or {SECRET}")))?,
        };
        let mut webhook = Webhook::new(name, &self.url, secret);
        if let Some(kinds) = &self.kinds {
            if kinds.is_empty() {
                return Err(named("kinds: must not be empty; omit it for all kinds".into()));
            }
            webhook = webhook.kinds(kinds.iter().copied());
        }
        if let Some(Span(timeout)) = self.timeout {
            webhook = webhook.timeout(timeout);
        }
        webhook.check().map_err(|invalid: Invalid| named(invalid.to_string()))?;
        Ok(webhook)
    }
}

/// The secret of webhooks that do not specify one.
fn shared_secret(args: &AlertArgs) -> Result<Option<Vec<u8>>, Usage> {
    let environment = Environment::of_process();
    match (&args.alert_secret_file, environment.get(SECRET)) {
        (Some(path), Some(_)) if environment.get(SECRET_FILE) == path.to_str() => {
            Err(Usage(environment::both(SECRET, SECRET_FILE)))
        }
        (Some(path), _) => {
            let unreadable = |why| Usage(format!("--alert-secret-file ({SECRET_FILE}): {why}"));
            read_secret(path).map(Some).map_err(unreadable)
        }
        (None, secret) => Ok(secret.map(|secret| secret.as_bytes().to_vec())),
    }
}

/// The content of a file, without the line break at its end.
fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    let mut secret = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    while secret.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        secret.pop();
    }
    Ok(secret)
}
