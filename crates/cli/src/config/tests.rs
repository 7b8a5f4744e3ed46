//! Settings of files and variables together.

#![allow(clippy::unwrap_used)]

use std::fs;

use serde::Deserialize;

use super::{
    Config, flags,
    keys::{self, KEYS},
    settings::{KeyPath, Settings, insert},
};

/// The settings of a file with this text, under these variables.
fn load(text: &str, variables: &[(&str, &str)]) -> Settings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.toml");
    fs::write(&path, text).unwrap();
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load(Some(&path), &environment.collect())
}

fn value(settings: &Settings, path: &str) -> Option<String> {
    let path: KeyPath = path.split(' ').map(str::to_owned).collect();
    settings.values.get(&path).map(|setting| setting.value.to_string())
}

#[test]
fn variables_take_precedence_over_the_file() {
    let text = "store = \"sqlite:a.db\"\n[worker]\nlease = \"5s\"\nconcurrency = 1\n[queues.e-mail]\npriority = 1\n";
    let settings = load(
        text,
        &[
            ("PUNCTUAL_WORKER__LEASE", "9s"),
            ("PUNCTUAL_CONCURRENCY", "7"),
            ("PUNCTUAL_QUEUES__E_MAIL__PRIORITY", "3"),
            ("PUNCTUAL_QUEUES__bulk", "{ priority = 0, limits = { rate = \"3/1s\" } }"),
            ("PUNCTUAL_QUEUES__bulk__PRIORITY", "2"),
            ("PUNCTUAL_APPLICATION", ""),
        ],
    );
    assert_eq!(settings.problems, Vec::<String>::new());
    for (path, expected) in [
        ("store", "\"sqlite:a.db\""),
        ("worker lease", "\"9s\""),
        ("worker concurrency", "7"),
        ("queues e-mail priority", "3"),
        ("queues bulk priority", "2"),
        ("queues bulk limits rate", "\"3/1s\""),
    ] {
        assert_eq!(value(&settings, path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(value(&settings, "application"), None, "an empty variable is not set");
    assert!(Config::of(&settings).is_ok());
}

#[test]
fn a_problem_names_its_place_and_no_value() {
    for (text, variable, expected) in [
        ("[worker]\nlease = \"hunter2\"", ("", ""), "line 2, column 9, key worker.lease: expected a duration"),
        ("[worker]\nlese = \"hunter2\"", ("", ""), "unknown key `lese`; did you mean `lease`?"),
        ("worker = \"hunter2\"", ("", ""), "key worker: expected a section"),
        ("[schedules.x]\ncron = \"hunter2\"", ("", ""), "[schedules.x] of the configuration: key `job` is missing"),
        ("store = \"hunter2\"\nstore_file = \"x\"", ("", ""), "store and store_file are both set"),
        ("store_file = \"absent\"", ("", ""), "key store: cannot read"),
        ("", ("PUNCTUAL_WORKER__LEASE", "hunter2"), "PUNCTUAL_WORKER__LEASE: expected a duration"),
        ("", ("PUNCTUAL_QUEUES__mail__PRIORITY", "hunter2"), "PUNCTUAL_QUEUES__mail__PRIORITY: expected a whole"),
        ("", ("PUNCTUAL_RETENTION", "hunter2"), "PUNCTUAL_RETENTION: expected an inline table"),
        ("", ("PUNCTUAL_STORE_FILE", "/absent/store"), "PUNCTUAL_STORE_FILE: cannot read /absent/store"),
    ] {
        let settings = load(text, &[variable]);
        let found = settings.problems.iter().any(|problem| problem.contains(expected));
        assert!(found, "{text} {variable:?}: {:?}", settings.problems);
        assert!(!settings.problems.concat().contains("hunter2"), "{text}: {:?}", settings.problems);
    }
}

#[test]
fn two_variables_for_one_key_are_a_problem_or_the_flags_one_counts() {
    let both = load("", &[("PUNCTUAL_STORE", "sqlite:a.db"), ("PUNCTUAL_STORE_FILE", "x")]);
    assert_eq!(both.problems.len(), 1, "{:?}", both.problems);
    assert!(both.problems[0].contains("PUNCTUAL_STORE") && both.problems[0].contains("are both set"));
    let both = load("", &[("PUNCTUAL_WORKER__CONCURRENCY", "1"), ("PUNCTUAL_CONCURRENCY", "2")]);
    assert_eq!(value(&both, "worker concurrency").as_deref(), Some("2"));
    assert_eq!(both.warnings, ["PUNCTUAL_WORKER__CONCURRENCY has no effect, because PUNCTUAL_CONCURRENCY is set"]);
}

#[test]
fn unknown_variables_are_warnings() {
    let settings = load("", &[("PUNCTUAL_RETENTION__SUCEEDED", "7d"), ("PUNCTUAL_JOB_ID", "job_1")]);
    let expected = "unknown variable PUNCTUAL_RETENTION__SUCEEDED; did you mean PUNCTUAL_RETENTION__SUCCEEDED?";
    assert_eq!(settings.warnings, [expected]);
}

#[test]
fn every_variable_of_a_flag_is_documented() {
    let page = include_str!("../../../../docs/configuration.md");
    let missing: Vec<_> = flags::variables().into_iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks {missing:?}");
}

/// The list of keys and the types of the configuration name the same keys.
#[test]
fn the_list_of_keys_is_complete() {
    let mut tables: Vec<KeyPath> = vec![Vec::new()];
    for key in KEYS {
        let parts: KeyPath = key.segments().map(|part| if part == "*" { "x" } else { part }.to_owned()).collect();
        tables.extend((1..parts.len()).map(|length| parts[..length].to_vec()));
    }
    tables.sort();
    tables.dedup();
    for table in tables {
        let mut document = toml::Table::new();
        if table.first().is_some_and(|first| first == "schedules") && table.len() == 2 {
            for required in ["cron", "job"] {
                insert(&mut document, &[&*table, &[required.to_owned()]].concat(), "x".into());
            }
        }
        insert(&mut document, &[&*table, &["no-such-key".to_owned()]].concat(), true.into());
        let Err(error) = Config::deserialize(toml::Value::Table(document)) else { continue };
        let Some((_, names)) = error.message().split_once("expected") else { continue };
        let mut accepted: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        let mut listed = keys::in_table(&table);
        accepted.sort_unstable();
        listed.sort_unstable();
        if error.message().contains("unknown field") {
            assert_eq!(accepted, listed, "{table:?}");
        }
    }
}
