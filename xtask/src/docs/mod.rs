//! The generated pages of the documentation: `cargo xtask docs` writes them, `cargo xtask tidy` compares them with the
//! sources.
//!
//! | file | content |
//! |---|---|
//! | `decisions` | the list of decision records, with their dates; their entries in the table of contents |
//! | `errors` | codes of HTTP errors, of job errors, and exit codes |
//! | `index` | `llms.txt`: each page with its first sentence |
//! | `metrics` | the metrics of `GET /metrics` |
//! | `tables` | the tables of each engine, from the migrations |
//!
//! The reference of the command line and the OpenAPI document come from values of the program, so tests write them.

mod decisions;
mod errors;
mod index;
mod metrics;
mod tables;

use std::{fs, process::Command};

use anyhow::{Context, Result};

use crate::{root, run as run_cargo};

/// A file in `docs` and its text.
type Generated = (&'static str, String);

/// Tests that write a file from values of the program: package, arguments that select the test.
const WRITTEN_BY_TESTS: [(&str, &[&str]); 2] = [
    ("punctual-cli", &["--bin", "punctual", "reference"]),
    ("punctual-server", &["--test", "api", "the_copy_in_docs"]),
];

/// Writes all generated pages.
pub(crate) fn run() -> Result<()> {
    for (package, selection) in WRITTEN_BY_TESTS {
        let mut test = Command::new(env!("CARGO"));
        test.args(["test", "--quiet", "--package", package]).args(selection).env("PUNCTUAL_BLESS", "1");
        run_cargo(&mut test)?;
    }
    for (path, text) in generated()? {
        fs::write(root().join(path), text).with_context(|| format!("cannot write {path}"))?;
        eprintln!("  {path}");
    }
    Ok(())
}

/// The generated pages that do not match their sources.
pub(crate) fn outdated(problems: &mut Vec<String>) -> Result<()> {
    for (path, text) in generated()? {
        if fs::read_to_string(root().join(path)).unwrap_or_default() != text {
            problems.push(format!("{path}: outdated; write it with `cargo xtask docs`"));
        }
    }
    Ok(())
}

fn generated() -> Result<Vec<Generated>> {
    let migration = |engine: &str| read(&format!("crates/sql/src/{engine}/migrations/0001_initial.sql"));
    let engines = [migration("sqlite")?, migration("postgres")?, migration("sqlserver")?];
    let stores = [read("crates/sql/src/postgres/session.rs")?, read("crates/redis/src/store.rs")?];
    let (server, worker) = (read("crates/server/src/metrics.rs")?, read("crates/worker/src/stats.rs")?);
    let problems = read("crates/server/src/problem.rs")?;
    let exit_codes = read("crates/cli/src/exit.rs")?;
    let records = records()?;
    let contents = decisions::contents(&read("docs/SUMMARY.md")?, &records)?;
    let index = index::page(&contents, |path| read(&format!("docs/{path}")))?;
    Ok(vec![
        ("docs/SUMMARY.md", contents),
        ("docs/decisions.md", decisions::page(&records)?),
        ("docs/reference/errors.md", errors::page(&problems, &read("crates/core/src/job.rs")?, &exit_codes)?),
        ("docs/reference/metrics.md", metrics::page(&server, &worker, &stores)?),
        ("docs/reference/tables.md", tables::page(&engines)),
        ("docs/llms.txt", index),
    ])
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The decision records, by file name.
fn records() -> Result<Vec<(String, String)>> {
    let folder = root().join("docs/adr");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).context("cannot read docs/adr")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    names.into_iter().map(|name| Ok((name.clone(), read(&format!("docs/adr/{name}"))?))).collect()
}
