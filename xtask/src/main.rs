//! Punctual's own tasks: `cargo xtask test | bench | ci`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use punctual_servers::{Care, Postgres};

#[derive(Debug, Parser)]
#[command(about = "Punctual's own tasks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all tests and all examples
    Test,
    /// Measure Punctual, alternately with peers where their drivers are at hand
    Bench(bench::Args),
    /// Run a command with a throw-away PostgreSQL, named by PUNCTUAL_TEST_POSTGRES_URL
    With {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// What continuous integration runs: format, lints, tests, documentation
    Ci,
}

/// Where the tests find the server that was started for them.
const POSTGRES_URL: &str = "PUNCTUAL_TEST_POSTGRES_URL";

/// The examples, each of which must run to its end.
const EXAMPLES: [&str; 6] =
    ["quickstart", "retries", "schedules", "transactional_enqueue", "graceful_shutdown", "testing"];

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test => test(),
        Task::Bench(args) => bench::run(&args),
        Task::With { command } => with(&command),
        Task::Ci => ci(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    test()?;
    run(Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "--deny warnings"))
}

fn test() -> Result<()> {
    let server = Postgres::start(Care::None)?;
    let with_server = |args: &[&str]| run(Command::new(env!("CARGO")).args(args).env(POSTGRES_URL, server.url()));
    with_server(&["test", "--workspace", "--quiet"])?;
    for example in EXAMPLES {
        with_server(&["run", "--quiet", "--package", "examples", "--example", example])?;
    }
    Ok(())
}

fn with(command: &[String]) -> Result<()> {
    let server = Postgres::start(Care::Durable)?;
    let (program, args) = command.split_first().context("name a command")?;
    let status = Command::new(program).args(args).env(POSTGRES_URL, server.url()).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed with {status}");
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn cargo(args: &[&str]) -> Result<()> {
    run(Command::new(env!("CARGO")).args(args))
}

fn run(command: &mut Command) -> Result<()> {
    let shown: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    eprintln!("$ cargo {}", shown.join(" "));
    let start = Instant::now();
    let status = command.current_dir(root()).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo {} failed with {status}", shown.join(" "));
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
