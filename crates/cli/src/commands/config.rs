//! `punctual config`: checks and shows the configuration, without connecting to the store.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Result;
use punctual::core::redact;
use serde_json::{Value, json};

use crate::{
    args::{Cli, ConfigCommand},
    config::{
        Config,
        environment::Environment,
        keys::{self, Found, KEYS, Key, Secrecy},
        settings::{Settings, Source},
    },
    exit,
    format::DIM,
    output::print_json,
    table::{Cell, Table},
};

/// Stands for a secret.
const REDACTED: &str = "[redacted]";

pub(crate) fn run(cli: &Cli, command: &ConfigCommand) -> Result<ExitCode> {
    let environment = Environment::of_process();
    let settings = Settings::load(cli.config.as_deref(), &environment);
    match command {
        ConfigCommand::Check => check(cli, &settings, &environment),
        ConfigCommand::Show => show(cli, &settings, &environment),
        ConfigCommand::Keys => list_keys(cli),
    }
}

/// All problems: of the settings one by one, and of what they say together.
pub(crate) fn problems(cli: &Cli, settings: &Settings, environment: &Environment) -> Vec<String> {
    let mut problems = settings.problems.clone();
    match Config::of(settings) {
        Ok(config) => problems.extend(config.problems(cli, environment)),
        Err(problem) => problems.push(problem.to_string()),
    }
    problems.iter().map(|problem| redact::text(problem, &[]).into_owned()).collect()
}

fn check(cli: &Cli, settings: &Settings, environment: &Environment) -> Result<ExitCode> {
    let problems = problems(cli, settings, environment);
    if cli.json {
        let (ok, warnings) = (problems.is_empty(), &settings.warnings);
        print_json(&json!({"ok": ok, "file": settings.file, "problems": problems, "warnings": warnings}))?;
    } else {
        settings.warnings.iter().for_each(|warning| println!("warning: {warning}"));
        problems.iter().for_each(|problem| println!("error: {problem}"));
        if problems.is_empty() {
            println!("the configuration is valid");
        }
    }
    Ok(code(&problems))
}

fn code(problems: &[String]) -> ExitCode {
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) }
}

/// A setting that is in effect.
struct Row {
    key: String,
    value: Value,
    source: String,
}

fn show(cli: &Cli, settings: &Settings, environment: &Environment) -> Result<ExitCode> {
    let rows = rows(cli, settings, environment);
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    if cli.json {
        let keys: Vec<Value> =
            rows.iter().map(|row| json!({"key": row.key, "value": row.value, "source": row.source})).collect();
        print_json(&json!({"file": file, "keys": keys, "problems": settings.problems}))?;
    } else {
        anstream::println!("{DIM}configuration file: {}{DIM:#}", file.as_deref().unwrap_or("none"));
        let mut table = Table::new(["KEY", "VALUE", "SOURCE"]);
        for row in rows {
            let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
            table.row([Cell::new(row.key), Cell::new(value), Cell::new(row.source)]);
        }
        table.print();
        settings.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    }
    Ok(code(&settings.problems))
}

/// The settings in effect: given ones with their sources, and defaults.
fn rows(cli: &Cli, settings: &Settings, environment: &Environment) -> Vec<Row> {
    let defaults = KEYS.iter().filter(|key| !key.path.contains('*') && !key.default.is_empty());
    let default = |key: &Key| Row { key: key.path.to_owned(), value: key.default.into(), source: "default".to_owned() };
    let mut rows: BTreeMap<String, Row> = defaults.map(|key| (key.path.to_owned(), default(key))).collect();
    for (path, setting) in &settings.values {
        let Found::Key(key) = keys::find(path) else { continue };
        let source = match &setting.source {
            Source::Variable(name) => name.clone(),
            Source::File(at) => {
                let file = settings.file.as_deref().unwrap_or(std::path::Path::new("punctual.toml"));
                format!("{}:{}", file.display(), at.line)
            }
        };
        let value = serde_json::to_value(&setting.value).unwrap_or_default();
        let path = path.join(".");
        rows.insert(path.clone(), Row { key: path, value: shown(key, value), source });
    }
    for (path, value) in [("store", &cli.store), ("dispatch", &cli.dispatch), ("locks", &cli.locks)] {
        let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else { continue };
        let Found::Key(key) = keys::find(&[path.to_owned()]) else { continue };
        let Some((flag, variable)) = key.flag else { continue };
        if environment.get(variable) != Some(value) {
            let row = Row { key: path.to_owned(), value: shown(key, value.into()), source: flag.to_owned() };
            rows.insert(path.to_owned(), row);
        }
    }
    if cli.lock_jobs && environment.get("PUNCTUAL_LOCK_JOBS") != Some("true") {
        let row = Row { key: "lock_jobs".to_owned(), value: true.into(), source: "--lock-jobs".to_owned() };
        rows.insert(row.key.clone(), row);
    }
    rows.into_values().collect()
}

/// A value without secrets: of the URL of a store, the kind; a path of SQLite is not secret.
fn shown(key: &Key, value: Value) -> Value {
    match (key.secrecy, value) {
        (Secrecy::Public, value) => public(value),
        (Secrecy::Secret, Value::String(url)) if url.starts_with("sqlite:") => url.into(),
        (Secrecy::Secret, Value::String(url)) => match url.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://{REDACTED}").into(),
            None => REDACTED.into(),
        },
        (Secrecy::Hidden | Secrecy::Secret, _) => REDACTED.into(),
    }
}

/// A value that is not secret, but may contain a secret by mistake, such as a password in a command.
fn public(value: Value) -> Value {
    match value {
        Value::String(text) => redact::text(&text, &[]).into_owned().into(),
        Value::Array(values) => values.into_iter().map(public).collect(),
        other => other,
    }
}

fn list_keys(cli: &Cli) -> Result<ExitCode> {
    if cli.json {
        let key = |key: &Key| {
            let (flag, short) = key.flag.unzip();
            json!({"key": key.path, "variable": short.map_or_else(|| key.variable(), str::to_owned), "flag": flag,
                "default": key.default, "about": key.about, "secret": key.secrecy != Secrecy::Public})
        };
        print_json(&json!({"keys": KEYS.iter().map(key).collect::<Vec<_>>()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["KEY", "VARIABLE", "FLAG", "DEFAULT", "MEANING"]);
    for key in KEYS {
        let (flag, short) = key.flag.unzip();
        table.row([
            Cell::new(key.path),
            Cell::new(short.map_or_else(|| key.variable(), str::to_owned)),
            Cell::new(flag.unwrap_or_default()),
            Cell::new(key.default),
            Cell::new(key.about),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A row of the table of docs/configuration.md.
    fn documented(key: &Key) -> String {
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let variable = match key.flag {
            Some((_, short)) if key.path.starts_with("worker.") => format!("`{short}`, `{}`", key.variable()),
            _ => format!("`{}`", key.variable()),
        };
        let secret = if key.secrecy == Secrecy::Secret { " Secret: also from a file." } else { "" };
        let (flag, default) = (code(key.flag.map_or("", |(flag, _)| flag)), key.default);
        let about = key.about;
        format!("| `{}` | {variable} | {flag} | {default} | {about}{secret} |", key.path.replace('*', "NAME"))
            .replace("|  |", "| |")
            .replace("|  |", "| |")
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../../docs/configuration.md");
        let missing: Vec<_> = KEYS.iter().map(documented).filter(|row| !page.contains(row.as_str())).collect();
        assert!(missing.is_empty(), "docs/configuration.md lacks:\n{}", missing.join("\n"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = |path: &str, value: &str| {
            let Found::Key(key) = keys::find(&path.split('.').map(str::to_owned).collect::<Vec<_>>()) else {
                return Value::Null;
            };
            shown(key, value.into())
        };
        assert_eq!(shown("store", "postgres://ada:hunter2@db/app"), "postgres://[redacted]");
        assert_eq!(shown("store", "sqlite:jobs.db"), "sqlite:jobs.db");
        assert_eq!(shown("handlers.x.env.KEY", "hunter2"), "[redacted]");
        assert_eq!(shown("worker.lease", "30s"), "30s");
    }
}
